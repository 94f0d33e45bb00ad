//===- ChatParser.cpp - Parser of chat templates --------------------------===//
//
// Cuts a template into text and tags, and parses what is in the tags.
//
//===----------------------------------------------------------------------===//
#include "text/ChatSyntax.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace kvc::text::chat {

Status error(StatusCode code, int line, const std::string &what) {
  return {code, fmt::format("chat template, line {}: {}", line, what)};
}

namespace {

constexpr int maxDepth = 100; ///< of nested statements or expressions

bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool isNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

struct Token {
  enum class Kind { end, name, integer, string, symbol } kind = Kind::end;
  std::string text;
  int line = 0;
};

/// A piece of the template: text, or the tokens of a tag.
struct Piece {
  enum class Kind { text, output, statement } kind;
  int line;
  std::string text;
  std::vector<Token> tokens;
};

//===----------------------------------------------------------------------===//
// Lexer
//===----------------------------------------------------------------------===//

class Lexer {
public:
  explicit Lexer(std::string_view source) : source(source) {
    // Jinja drops one newline at the end.
    if (this->source.ends_with('\n')) {
      this->source.remove_suffix(1);
    }
  }

  Result<std::vector<Piece>> run() {
    while (position < source.size()) {
      size_t tag = nextTag();
      addText(source.substr(position, tag - position), tag);
      advance(tag);
      if (tag < source.size()) {
        KVC_RETURN_IF_ERROR(readTag());
      }
    }
    return std::move(pieces);
  }

private:
  size_t nextTag() const {
    for (size_t i = position; i + 1 < source.size(); ++i) {
      if (source[i] == '{' && (source[i + 1] == '{' || source[i + 1] == '%' || source[i + 1] == '#')) {
        return i;
      }
    }
    return source.size();
  }

  void advance(size_t to) {
    line += int(std::count(source.begin() + position, source.begin() + to, '\n'));
    position = to;
  }

  /// Adds the text before `tag` with white space cut as the tags at its ends ask for.
  void addText(std::string_view text, size_t tag) {
    if (trimNext == Trim::all) {
      while (!text.empty() && isSpace(text.front())) {
        text.remove_prefix(1);
      }
    } else if (trimNext == Trim::newline && text.starts_with('\n')) {
      text.remove_prefix(1);
    }
    trimNext = Trim::nothing;
    char kind = tag + 1 < source.size() ? source[tag + 1] : 0, control = tag + 2 < source.size() ? source[tag + 2] : 0;
    if (kind && control == '-') {
      while (!text.empty() && isSpace(text.back())) {
        text.remove_suffix(1);
      }
    } else if ((kind == '%' || kind == '#') && control != '+') {
      // lstrip_blocks: blanks between the start of the line and a block go.
      size_t keep = text.find_last_not_of(" \t");
      bool lineStart = keep == std::string_view::npos ? startsLine(text) : text[keep] == '\n';
      if (lineStart) {
        text = text.substr(0, keep == std::string_view::npos ? 0 : keep + 1);
      }
    }
    if (!text.empty()) {
      pieces.push_back({Piece::Kind::text, line, std::string(text), {}});
    }
  }

  /// Whether a text of blanks only begins a line of the source.
  bool startsLine(std::string_view text) const {
    size_t offset = size_t(text.data() - source.data());
    return offset == 0 || source[offset - 1] == '\n';
  }

  Status readTag() {
    int start = line;
    char kind = source[position + 1];
    advance(position + 2);
    if (position < source.size() && (source[position] == '-' || source[position] == '+')) {
      advance(position + 1);
    }
    if (kind == '#') {
      size_t end = source.find("#}", position);
      if (end == std::string_view::npos) {
        return error(StatusCode::corrupt, start, "expects '#}' at the end of a comment, but the template ends");
      }
      bool all = end > position && source[end - 1] == '-';
      advance(end + 2);
      trimNext = all ? Trim::all : Trim::newline;
      return {};
    }
    Piece piece{kind == '{' ? Piece::Kind::output : Piece::Kind::statement, start, {}, {}};
    std::string_view close = kind == '{' ? "}}" : "%}";
    while (true) {
      while (position < source.size() && isSpace(source[position])) {
        advance(position + 1);
      }
      std::string_view rest = source.substr(position);
      if (rest.empty()) {
        return error(StatusCode::corrupt, start, fmt::format("expects '{}', but the template ends", close));
      }
      bool all = rest.front() == '-' && rest.substr(1).starts_with(close);
      if (all || rest.starts_with(close)) {
        advance(position + (all ? 3 : 2));
        trimNext = all ? Trim::all : kind == '%' ? Trim::newline : Trim::nothing;
        break;
      }
      Token token;
      KVC_RETURN_IF_ERROR(readToken(token));
      piece.tokens.push_back(std::move(token));
    }
    piece.tokens.push_back({Token::Kind::end, std::string(close), line});
    pieces.push_back(std::move(piece));
    return {};
  }

  Status readToken(Token &token) {
    token.line = line;
    char c = source[position];
    size_t end = position;
    if (isNameStart(c) || isDigit(c)) {
      token.kind = isDigit(c) ? Token::Kind::integer : Token::Kind::name;
      while (end < source.size() && (isNameStart(source[end]) || isDigit(source[end]))) {
        ++end;
      }
      token.text = source.substr(position, end - position);
      advance(end);
      return {};
    }
    if (c == '\'' || c == '"') {
      return readString(token, c);
    }
    token.kind = Token::Kind::symbol;
    for (std::string_view symbol : {"==", "!=", "<=", ">=", "//"}) {
      if (source.substr(position).starts_with(symbol)) {
        token.text = symbol;
      }
    }
    if (token.text.empty()) {
      constexpr std::string_view single = "<>+-*/%~|.,:()[]=";
      if (single.find(c) == std::string_view::npos) {
        return error(StatusCode::unsupported, line,
                     fmt::format("the character '{}' is not understood in a tag", c >= ' ' && c < 127 ? c : '?'));
      }
      token.text = c;
    }
    advance(position + token.text.size());
    return {};
  }

  Status readString(Token &token, char quote) {
    token.kind = Token::Kind::string;
    constexpr std::string_view escapes = "n\nt\tr\r\\\\'\'\"\"";
    for (size_t i = position + 1; i < source.size(); ++i) {
      if (source[i] == quote) {
        advance(i + 1);
        return {};
      }
      if (source[i] != '\\') {
        token.text += source[i];
        continue;
      }
      char letter = ++i < source.size() ? source[i] : 0;
      size_t at = 0;
      while (at < escapes.size() && escapes[at] != letter) {
        at += 2;
      }
      if (at == escapes.size()) {
        return error(StatusCode::unsupported, line, fmt::format("the escape '\\{}' is not understood", letter));
      }
      token.text += escapes[at + 1];
    }
    return error(StatusCode::corrupt, line, "expects the end of a string, but the template ends");
  }

  enum class Trim { nothing, newline, all };
  std::string_view source;
  size_t position = 0;
  int line = 1;
  Trim trimNext = Trim::nothing;
  std::vector<Piece> pieces;
};

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

/// Parses the tokens of one tag. The grammar is that of Jinja, lowest precedence first.
class ExprParser {
public:
  explicit ExprParser(const std::vector<Token> &tokens) : tokens(tokens) {}

  const Token &peek() const { return tokens[at]; }
  bool isSymbol(std::string_view text) const { return peek().kind == Token::Kind::symbol && peek().text == text; }
  bool isName(std::string_view text) const { return peek().kind == Token::Kind::name && peek().text == text; }
  bool accept(std::string_view text) {
    if (isSymbol(text) || isName(text)) {
      ++at;
      return true;
    }
    return false;
  }
  Status expect(std::string_view text) { return accept(text) ? Status() : unexpected(fmt::format("'{}'", text)); }
  Status expectName(std::string &name) {
    if (peek().kind != Token::Kind::name) {
      return unexpected("a name");
    }
    name = tokens[at++].text;
    return {};
  }
  Status expectEnd() const { return peek().kind == Token::Kind::end ? Status() : unexpected("the end of the tag"); }

  Result<ExprPtr> parse() {
    KVC_RETURN_IF_ERROR(enter());
    KVC_ASSIGN_OR_RETURN(ExprPtr value, parseBinary(0));
    if (accept("if")) {
      ExprPtr choice = make(Expr::Kind::choice);
      choice->operands.push_back(std::move(value));
      KVC_ASSIGN_OR_RETURN(ExprPtr condition, parseBinary(0));
      choice->operands.push_back(std::move(condition));
      ExprPtr other = make(Expr::Kind::undefined);
      if (accept("else")) {
        KVC_ASSIGN_OR_RETURN(other, parse());
      }
      choice->operands.push_back(std::move(other));
      value = std::move(choice);
    }
    --depth;
    return value;
  }

  /// What may stand after `in` of a loop: `if` there starts a condition.
  Result<ExprPtr> parseWithoutChoice() { return parseBinary(0); }

private:
  struct Level {
    std::vector<std::string_view> operators;
  };
  static const std::vector<Level> &levels() {
    static const std::vector<Level> table = {
        {{"or"}},
        {{"and"}},
        {{}}, // not
        {{"==", "!=", "<", "<=", ">", ">=", "in", "not in"}},
        {{"+", "-"}},
        {{"~"}},
        {{"*", "/", "//", "%"}},
    };
    return table;
  }
  static constexpr size_t notLevel = 2;

  Status unexpected(const std::string &wanted) const {
    return error(StatusCode::corrupt, peek().line,
                 fmt::format("expects {}, but got '{}'", wanted, peek().text.substr(0, 40)));
  }
  Status enter() {
    return ++depth > maxDepth ? error(StatusCode::unsupported, peek().line, "expressions are nested too deeply")
                              : Status();
  }
  ExprPtr make(Expr::Kind kind, std::string text = {}) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = peek().line;
    expr->text = std::move(text);
    return expr;
  }

  /// The operator of this level that stands here, taken; empty if there is none.
  std::string takeOperator(size_t level) {
    for (std::string_view op : levels()[level].operators) {
      if (op == "not in") {
        if (isName("not") && tokens[at + 1].kind == Token::Kind::name && tokens[at + 1].text == "in") {
          at += 2;
          return std::string(op);
        }
      } else if (accept(op)) {
        return std::string(op);
      }
    }
    return {};
  }

  Result<ExprPtr> parseBinary(size_t level) {
    if (level == levels().size()) {
      return parseUnary();
    }
    if (level == notLevel && isName("not")) {
      KVC_RETURN_IF_ERROR(enter());
      ExprPtr expr = make(Expr::Kind::unary, "not");
      ++at;
      KVC_ASSIGN_OR_RETURN(ExprPtr operand, parseBinary(level));
      expr->operands.push_back(std::move(operand));
      --depth;
      return expr;
    }
    KVC_ASSIGN_OR_RETURN(ExprPtr left, parseBinary(level + 1));
    int chained = 0;
    for (std::string op = takeOperator(level); !op.empty(); op = takeOperator(level)) {
      ExprPtr expr = make(Expr::Kind::binary, op);
      KVC_ASSIGN_OR_RETURN(ExprPtr right, parseBinary(level + 1));
      expr->operands.push_back(std::move(left));
      expr->operands.push_back(std::move(right));
      left = std::move(expr);
      // The tree is as deep as the chain is long.
      if (++chained > maxDepth) {
        return error(StatusCode::unsupported, peek().line, "expressions are nested too deeply");
      }
    }
    return left;
  }

  Result<ExprPtr> parseUnary() {
    if (isSymbol("-") || isSymbol("+")) {
      KVC_RETURN_IF_ERROR(enter());
      ExprPtr expr = make(Expr::Kind::unary, tokens[at++].text);
      KVC_ASSIGN_OR_RETURN(ExprPtr operand, parseUnary());
      expr->operands.push_back(std::move(operand));
      --depth;
      return expr;
    }
    KVC_ASSIGN_OR_RETURN(ExprPtr value, parsePrimary());
    return parsePostfix(std::move(value));
  }

  Result<ExprPtr> parsePrimary() {
    const Token &token = peek();
    if (accept("(")) {
      KVC_ASSIGN_OR_RETURN(ExprPtr inner, parse());
      KVC_RETURN_IF_ERROR(expect(")"));
      return inner;
    }
    if (isSymbol("[")) {
      ExprPtr list = make(Expr::Kind::list);
      ++at;
      KVC_RETURN_IF_ERROR(parseArguments("]", *list));
      return list;
    }
    if (token.kind == Token::Kind::string) {
      ExprPtr expr = make(Expr::Kind::string);
      while (peek().kind == Token::Kind::string) { // neighbours are one string
        expr->text += tokens[at++].text;
      }
      return expr;
    }
    if (token.kind == Token::Kind::integer) {
      ExprPtr expr = make(Expr::Kind::integer);
      const char *end = token.text.data() + token.text.size();
      auto [stop, failure] = std::from_chars(token.text.data(), end, expr->number);
      if (failure != std::errc() || stop != end) {
        return unexpected("an integer of 64 bits");
      }
      ++at;
      return expr;
    }
    if (token.kind != Token::Kind::name) {
      return unexpected("an expression");
    }
    std::string name = tokens[at++].text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      ExprPtr expr = make(Expr::Kind::boolean);
      expr->number = name == "true" || name == "True";
      return expr;
    }
    if (name == "none" || name == "None") {
      return make(Expr::Kind::none);
    }
    if (isSymbol("(")) {
      ExprPtr expr = make(Expr::Kind::call, name);
      ++at;
      KVC_RETURN_IF_ERROR(parseArguments(")", *expr));
      return expr;
    }
    return make(Expr::Kind::name, name);
  }

  Result<ExprPtr> parsePostfix(ExprPtr value) {
    int chained = 0;
    while (true) {
      ExprPtr expr;
      if (isSymbol(".")) {
        expr = make(Expr::Kind::attribute);
        ++at;
        KVC_RETURN_IF_ERROR(expectName(expr->text));
        expr->operands.push_back(std::move(value));
        if (accept("(")) {
          expr->kind = Expr::Kind::method;
          KVC_RETURN_IF_ERROR(parseArguments(")", *expr));
        }
      } else if (isSymbol("[")) {
        expr = make(Expr::Kind::index);
        ++at;
        expr->operands.push_back(std::move(value));
        KVC_RETURN_IF_ERROR(parseSubscript(*expr));
      } else if (isSymbol("|")) {
        expr = make(Expr::Kind::filter);
        ++at;
        KVC_RETURN_IF_ERROR(expectName(expr->text));
        expr->operands.push_back(std::move(value));
        if (accept("(")) {
          KVC_RETURN_IF_ERROR(parseArguments(")", *expr));
        }
      } else if (isName("is")) {
        ++at;
        bool negated = accept("not");
        expr = make(Expr::Kind::test);
        KVC_RETURN_IF_ERROR(expectName(expr->text));
        expr->operands.push_back(std::move(value));
        if (negated) {
          ExprPtr outer = make(Expr::Kind::unary, "not");
          outer->operands.push_back(std::move(expr));
          expr = std::move(outer);
        }
      } else {
        return value;
      }
      value = std::move(expr);
      if (++chained > maxDepth) {
        return error(StatusCode::unsupported, peek().line, "expressions are nested too deeply");
      }
    }
  }

  /// After '[': an index, or a slice without a step.
  Status parseSubscript(Expr &expr) {
    auto part = [&]() -> Result<ExprPtr> {
      if (isSymbol(":") || isSymbol("]")) {
        return make(Expr::Kind::undefined);
      }
      return parse();
    };
    KVC_ASSIGN_OR_RETURN(ExprPtr first, part());
    expr.operands.push_back(std::move(first));
    if (accept(":")) {
      expr.kind = Expr::Kind::slice;
      KVC_ASSIGN_OR_RETURN(ExprPtr last, part());
      expr.operands.push_back(std::move(last));
    }
    return expect("]");
  }

  /// Arguments up to `close`; `name = value` gives keywords.
  Status parseArguments(std::string_view close, Expr &expr) {
    while (!accept(close)) {
      std::string keyword;
      if (close == ")" && peek().kind == Token::Kind::name && tokens[at + 1].kind == Token::Kind::symbol &&
          tokens[at + 1].text == "=") {
        keyword = peek().text;
        at += 2;
      }
      KVC_ASSIGN_OR_RETURN(ExprPtr argument, parse());
      expr.operands.push_back(std::move(argument));
      expr.keywords.push_back(std::move(keyword));
      if (!isSymbol(close)) {
        KVC_RETURN_IF_ERROR(expect(","));
      }
    }
    return {};
  }

  const std::vector<Token> &tokens; ///< the last one is of kind end
  size_t at = 0;
  int depth = 0;
};

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

class Parser {
public:
  explicit Parser(std::vector<Piece> pieces) : pieces(std::move(pieces)) {}

  Result<std::vector<Node>> run() {
    std::vector<Node> nodes;
    std::string stop;
    KVC_RETURN_IF_ERROR(parseBody({}, nodes, stop));
    return nodes;
  }

private:
  /// Parses up to a statement that begins with a word of `stops`, which stays; the end of the template when there are
  /// none.
  Status parseBody(const std::vector<std::string_view> &stops, std::vector<Node> &nodes, std::string &stop) {
    if (++depth > maxDepth) {
      return error(StatusCode::unsupported, at < pieces.size() ? pieces[at].line : 1,
                   "statements are nested too deeply");
    }
    for (; at < pieces.size(); ++at) {
      Piece &piece = pieces[at];
      if (piece.kind == Piece::Kind::text) {
        nodes.push_back({Node::Kind::text, piece.line, piece.text, {}, {}, {}, {}, {}});
        continue;
      }
      ExprParser parser(piece.tokens);
      if (piece.kind == Piece::Kind::output) {
        Node node{Node::Kind::output, piece.line, {}, {}, {}, {}, {}, {}};
        KVC_ASSIGN_OR_RETURN(node.expr, parser.parse());
        KVC_RETURN_IF_ERROR(parser.expectEnd());
        nodes.push_back(std::move(node));
        continue;
      }
      std::string word;
      KVC_RETURN_IF_ERROR(parser.expectName(word));
      if (std::ranges::find(stops, word) != stops.end()) {
        stop = word;
        --depth;
        return {};
      }
      KVC_RETURN_IF_ERROR(parseStatement(word, parser, piece.line, nodes));
    }
    if (!stops.empty()) {
      return error(StatusCode::corrupt, pieces.empty() ? 1 : pieces.back().line,
                   fmt::format("expects '{}', but the template ends", stops.back()));
    }
    --depth;
    return {};
  }

  Status parseStatement(const std::string &word, ExprParser &parser, int line, std::vector<Node> &nodes) {
    if (word == "for") {
      return parseLoop(parser, line, nodes);
    }
    if (word == "if") {
      return parseBranch(parser, line, nodes);
    }
    if (word == "set") {
      Node node{Node::Kind::assign, line, {}, {}, {}, {}, {}, {}};
      KVC_RETURN_IF_ERROR(parser.expectName(node.text));
      if (parser.accept(".")) {
        KVC_RETURN_IF_ERROR(parser.expectName(node.attribute));
      }
      KVC_RETURN_IF_ERROR(parser.expect("="));
      KVC_ASSIGN_OR_RETURN(node.expr, parser.parse());
      KVC_RETURN_IF_ERROR(parser.expectEnd());
      nodes.push_back(std::move(node));
      return {};
    }
    return error(StatusCode::unsupported, line,
                 fmt::format("expects a statement out of for, if, set, but got '{}'", word.substr(0, 40)));
  }

  Status parseLoop(ExprParser &parser, int line, std::vector<Node> &nodes) {
    Node node{Node::Kind::loop, line, {}, {}, {}, {}, {}, {}};
    KVC_RETURN_IF_ERROR(parser.expectName(node.text));
    KVC_RETURN_IF_ERROR(parser.expect("in"));
    KVC_ASSIGN_OR_RETURN(node.expr, parser.parseWithoutChoice());
    if (parser.accept("if")) {
      KVC_ASSIGN_OR_RETURN(node.condition, parser.parse());
    }
    KVC_RETURN_IF_ERROR(parser.expectEnd());
    ++at;
    std::string stop;
    KVC_RETURN_IF_ERROR(parseBody({"endfor"}, node.body, stop));
    nodes.push_back(std::move(node));
    return {};
  }

  /// From the condition of an `if` or `elif` to its `endif`.
  Status parseBranch(ExprParser &parser, int line, std::vector<Node> &nodes) {
    if (++depth > maxDepth) {
      return error(StatusCode::unsupported, line, "statements are nested too deeply");
    }
    Node node{Node::Kind::branch, line, {}, {}, {}, {}, {}, {}};
    KVC_ASSIGN_OR_RETURN(node.expr, parser.parse());
    KVC_RETURN_IF_ERROR(parser.expectEnd());
    ++at;
    std::string stop;
    KVC_RETURN_IF_ERROR(parseBody({"elif", "else", "endif"}, node.body, stop));
    if (stop == "elif") {
      ExprParser next(pieces[at].tokens);
      next.accept("elif");
      KVC_RETURN_IF_ERROR(parseBranch(next, pieces[at].line, node.other));
    } else if (stop == "else") {
      ++at;
      KVC_RETURN_IF_ERROR(parseBody({"endif"}, node.other, stop));
    }
    --depth;
    nodes.push_back(std::move(node));
    return {};
  }

  std::vector<Piece> pieces;
  size_t at = 0;
  int depth = 0;
};

} // namespace

Result<std::vector<Node>> parseTemplate(std::string_view source) {
  KVC_ASSIGN_OR_RETURN(std::vector<Piece> pieces, Lexer(source).run());
  return Parser(std::move(pieces)).run();
}

} // namespace kvc::text::chat
