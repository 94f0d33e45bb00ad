# Attention in NumPy, row by row, in f64.
import numpy as np


def attention(q, keys, values, positions, scale, causal=True, window=None, score=None, sink_logits=None):
    """One sequence. q: rows x heads x channels; keys, values: slots x KV heads x channels; slot j has position j. Gives out,
    lse, and the probabilities (rows x heads x slots)."""
    q, keys, values = (np.asarray(x, np.float64) for x in (q, keys, values))
    rows, heads, _ = q.shape
    slots, kv_heads, _ = keys.shape
    out, lse = np.zeros((rows, heads, values.shape[2])), np.full((rows, heads), -np.inf)
    weights = np.zeros((rows, heads, slots))
    for r in range(rows):
        for h in range(heads):
            g = h // (heads // kv_heads)
            s = scale * keys[:, g] @ q[r, h]
            if score:
                s = np.array([score(x, 0, h, positions[r], np.int64(j)) for j, x in enumerate(s)], np.float64)
            for j in range(slots):
                hidden = (causal and j > positions[r]) or (window and positions[r] - j >= window)
                s[j] = -np.inf if hidden else s[j]
            terms = s if sink_logits is None else np.append(s, sink_logits[h])
            if slots == 0 or np.isneginf(s).all():
                continue
            top = terms.max()
            lse[r, h] = top + np.log(np.exp(terms - top).sum())
            weights[r, h] = np.exp(s - lse[r, h])
            out[r, h] = weights[r, h] @ values[:, g]
    return out, lse, weights
