# Cases of the differential test that failed once.
"""Each was found by the suite, made small by hand, and stays here whatever the suite chooses."""

import subprocess

import pytest
from test_mutants import TOOL

CASES = [
    # Constants of a score region that stock passes moved out of it.
    "score=cut,op=merge_states,shape=ragged,seed=1",
    "score=capture,returns=max,op=fork,shape=ragged,seed=1",
    # Selected tokens that lie in the tail.
    "residual=32,selection=token,shape=ragged,seed=1",
    "v=int2/channel,page=256,selection=token,segments=2,shape=decode,seed=1",
    # A sequence forked to itself.
    "op=fork,shape=prefill,seed=3",
    # One query head for each KV head in a decode step: tiles of one row.
    "gqa=1,shape=decode,seed=1",
    # Statistics past a table's end.
    "returns=max,shape=ragged,seed=1",
    # Statistics of rows whose scores are all -inf.
    "score=cut,returns=sum,mask=causal/window,shape=ragged,seed=1",
    # Heads of the only KV head, which are constants.
    "heads=1,score=alibi,shape=decode,seed=1",
    # Spans of a split row that are NaN.
    "inputs=nan,shape=long,seed=3",
    # Bounds of pages with NaN in their first slots.
    "slots=ring/17/0,selection=page,op=accumulate,inputs=nan,shape=ragged,seed=1000393",
    # Lengths after an append to a full ring, before its kernels have run.
    "slots=ring/17/0,returns=sum,shape=decode,seed=1",
    "slots=ring/40/4,selection=token,shape=long,seed=1",
    # Heads that are no whole vectors, in a tail.
    "dim=45,residual=32,shape=ragged,seed=1",
    # Heads of a dimension that no table names.
    "dim=112,k=int8,v=int4,group=16,shape=ragged,seed=1",
    "dim=112,gqa=8,shape=long,seed=1",
    # Pages of a size that no table names.
    "page=48,k=int4,v=int2,shape=ragged,seed=1",
    "page=48,k=int4/channel,v=int4,group=16,residual=32,shape=long,seed=1",
    # Units of three bytes.
    "k=int3,v=int3,shape=ragged,seed=1",
    "k=int3/channel,v=int3,residual=100/f32,shape=long,seed=1",
    "v=int3/channel,shape=ragged,seed=1",
    "k=int3/symmetric/f32,v=int3,group=8,page=5,op=fork,shape=ragged,seed=1",
]

# On simulated GPUs: target and case.
GPU_CASES = [
    # Sums that are read in front of a branch and moved behind it; queries of statistics that lay where their keys are.
    ("gfx942", "k=f32,v=int4/channel/symmetric/f32,group=row,page=48,dim=80,gqa=128,residual=32,mask=causal/tree,score=alibi,returns=count,shape=ragged,seed=2000174"),
    ("gfx942", "k=int4,v=int4/channel,group=row,page=256,dim=576x512,gqa=4,residual=32,mask=causal/window,returns=sum,shape=ragged,seed=2000206"),
    # Tiles that had more rows and stages than staging memory has room for; keys and values that take turns there.
    ("gfx1100", "k=bf16,v=bf16,dim=576x512,page=16,gqa=16,shape=ragged,seed=1"),
    ("gfx1100", "k=f32,v=f32,dim=256,page=16,gqa=16,shape=ragged,seed=1"),
    # Queries of split products for which staging memory had no room beside keys.
    ("gfx1100", "k=f32,v=int8/symmetric/bf16,group=8,page=24,dim=72x40,heads=1,gqa=8,tables=per_head,slots=ring/40/4,returns=sum,selection=page,op=fork,shape=ragged,garbage=nan,inputs=finite,seed=1"),
    # Small vectors that are cast to wide ones.
    ("sm_80", "k=int2,v=int2/symmetric,shape=ragged,seed=1"),
    ("gfx942", "k=int2,v=int2/symmetric,shape=ragged,seed=1"),
    # Scalars kept in lanes of a vector register.
    ("gfx942", "k=int8/channel,v=int4/channel,group=row,page=16,dim=40,gqa=16,tables=per_head,slots=stored,residual=1,shape=ragged,seed=1"),
    # Matrix products whose sums move to registers beside them.
    ("gfx942", "k=int3/channel,v=int2/channel,group=row,page=24,dim=192x128,gqa=7,residual=32,mask=window,shape=ragged,seed=1"),
]


@pytest.mark.parametrize("case", CASES)
def test_case(case):
    done = subprocess.run([TOOL, "--case", case], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("target, case", GPU_CASES)
def test_gpu_case(target, case):
    done = subprocess.run([TOOL, "--device", f"sim:{target}", "--target", target, "--case", case], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout
