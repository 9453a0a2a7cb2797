/**
 * Probes in Lua. Each operand of a condition is wrapped, so that the log of the server says whether it was
 * true and whether it was false:
 *
 *   if r.ended ~= '' or now >= r.expiresAt then
 *   if P('1',(r.ended ~= '')) or P('2',(now >= r.expiresAt)) then
 */
const TOKEN = /--[^\n]*|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*|\d[\w.]*|\.\.\.?|[~=<>]=|\s+|[\s\S]/gy;
const ENDS = new Set(
  "if elseif then else end return local while do until for in function = , ;".split(" "),
);
const OPEN = { "(": ")", "[": "]", "{": "}" };

const PROBE = `local function P(at, value)
  redis.log(redis.LOG_WARNING, 'PROBE ' .. at .. (value and ' true' or ' false'))
  return value
end
`;

/**
 * @param {string} text of a script
 * @param {(site: { line: string, leaf: string, wants: string[] }) => string} name of a site, by what it is
 */
export function probedLua(text, name) {
  const tokens = text.match(TOKEN) ?? [];
  const lines = text.split("\n");
  let line = 0;
  const out = [];
  /** Of the expression that is read: its operands, and the words between them. */
  let parts = [""];
  let words = [];
  let isCondition = false;
  const flush = () => {
    const last = parts.length - 1;
    const probed = parts.map((part, at) => {
      const leaf = part.trim();
      if (leaf === "" || (last === 0 && !isCondition)) return part;
      // `b` and `c` of `a and b or c` are values: it says nothing but that they were reached.
      const isChosen = words[at - 1] === "and" && words[at] === "or";
      const isValue = !isCondition && (at === last || isChosen);
      const wants = isValue ? ["true"] : ["true", "false"];
      const body = leaf.replace(/^not\s+/, "");
      const before = part.slice(0, part.indexOf(leaf)) + leaf.slice(0, leaf.length - body.length);
      const after = part.slice(part.indexOf(leaf) + leaf.length);
      const site = name({
        line: lines[line]?.trim() ?? "",
        leaf: body.replace(/\s+/g, " "),
        wants,
      });
      return `${before}P('${site}',(${body}))${after}`;
    });
    out.push(probed.map((part, at) => part + (words[at] ?? "")).join(""));
    [parts, words, isCondition] = [[""], [], false];
  };
  const stack = [];
  for (const token of tokens) {
    if (token in OPEN) {
      // A group is probed by itself; its end goes on with what stood before it.
      parts[parts.length - 1] += token;
      stack.push({ parts, words, isCondition, out: out.splice(0) });
      [parts, words, isCondition] = [[""], [], false];
    } else if (Object.values(OPEN).includes(token) && stack.length > 0) {
      flush();
      const inner = out.splice(0).join("");
      const outer = stack.pop();
      out.push(...outer.out);
      ({ parts, words, isCondition } = outer);
      parts[parts.length - 1] += inner + token;
    } else if (token === "and" || token === "or") {
      words.push(token);
      parts.push("");
    } else if (
      ENDS.has(token) ||
      (/^\s*\n\s*$/.test(token) && stack.length === 0 && !isCondition)
    ) {
      flush();
      out.push(token);
      isCondition = token === "if" || token === "elseif";
    } else if (token.startsWith("--")) {
      parts[parts.length - 1] += " ";
    } else {
      parts[parts.length - 1] += token;
    }
    line += token.split("\n").length - 1;
  }
  flush();
  return PROBE + out.join("");
}
