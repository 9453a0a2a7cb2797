/**
 * Probes in SQL. Each operand of a condition is wrapped in a call of a function that notes in the log of the
 * server whether it was true, and whether it was not:
 *
 *   WHERE l.ended IS NULL AND l.expires_at > c.now
 *   WHERE probe('1',(l.ended IS NULL)) AND probe('2',(l.expires_at > c.now))
 *
 * Conditions that an index answers stay as they are, so that the plans and the locks do too.
 */
const TOKEN = /--[^\n]*|'(?:''|[^'])*'|"[^"]*"|[A-Za-z_]\w*|\$\d+|[\d.]+|::|[<>=!]+|\s+|[\s\S]/gy;
const CLAUSES = new Set(
  (
    "SELECT FROM WHERE ON USING SET RETURNING GROUP ORDER BY LIMIT OFFSET FOR UNION VALUES INSERT INTO " +
    "UPDATE DELETE JOIN LEFT CROSS LATERAL AS WITH CASE WHEN THEN ELSE END DO CONFLICT NOTHING"
  ).split(" "),
);
const CONDITIONS = new Set(["WHERE", "ON", "WHEN"]);
/** What an index or a join answers. */
const KEY =
  /^[\w.]+\.(namespace|resource|id|task_id|ctid|claim_id|grant_id|queue)\s*=\s*[\w$.:"]+$/;
/** Always so: `(SELECT count(*) FROM granted) >= 0` makes one part wait for another. */
const ALWAYS = /^(true|\(SELECT count\(\*\) FROM \w+\) >= 0)$/;

export const PROBE = `CREATE OR REPLACE FUNCTION public.probe(at text, value boolean) RETURNS boolean
LANGUAGE plpgsql AS $$ BEGIN
  RAISE LOG 'PROBE % %', at, CASE WHEN value THEN 'true' ELSE 'false' END;
  RETURN value;
END $$`;

/**
 * @param {string} text of a statement
 * @param {(leaf: string) => string} name of a site, by what is probed there
 */
export function probedSql(text, name) {
  if (!/^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b/.test(text)) return text;
  const [tree] = parse(text.match(TOKEN) ?? [], 0);
  return whole(tree, name);
}

/** Tokens, and groups in parentheses as lists of them. */
function parse(tokens, from) {
  const list = [];
  for (let at = from; at < tokens.length; at += 1) {
    if (tokens[at] === ")") return [list, at];
    if (tokens[at] === "(") {
      const [group, end] = parse(tokens, at + 1);
      list.push(group);
      at = end;
    } else if (!tokens[at].startsWith("--")) list.push(tokens[at]);
  }
  return [list, tokens.length];
}

const plain = (list) =>
  list.map((each) => (Array.isArray(each) ? `(${plain(each)})` : each)).join("");

/** A query or a list, clause by clause. */
function whole(list, name) {
  let out = "";
  let clause = "";
  /** Of each CASE that is open: the clause that it stands in. */
  const around = [];
  let segment = [];
  const flush = () => {
    const text = plain(segment);
    // UPDATE ... SET column = condition
    const [assigned = ""] = (clause === "SET" && /^\s*\w+\s*=(?!=)/.exec(text)) || [];
    const isList = clause === "ON" && /^\s*$/.test(text);
    const rest = assigned ? segment.slice(lengthOf(segment, assigned)) : segment;
    const isCondition =
      !isList && (CONDITIONS.has(clause) || rest.some((each) => each === "AND" || each === "OR"));
    out += assigned + (isCondition ? condition(rest, name) : value(rest, name));
    segment = [];
  };
  for (const [at, token] of list.entries()) {
    const isDistinctFrom = token === "FROM" && /\bDISTINCT\s*$/.test(plain(segment));
    const isClause = CLAUSES.has(token) && !isDistinctFrom && !isOf(list, at);
    if (token === "," || isClause) {
      flush();
      out += token;
      if (token === "CASE") around.push(clause);
      if (token === "END") clause = around.pop() ?? "";
      else if (token !== "," || clause !== "SET") clause = token;
    } else segment.push(token);
  }
  flush();
  return out;
}

/** `extract(epoch FROM t)`, where FROM is no clause. */
const isOf = (list, at) => list[at] === "FROM" && /^\s*epoch\s*$/.test(plain(list.slice(0, at)));

function lengthOf(segment, text) {
  let length = 0;
  for (let left = text; left.length > 0; length += 1) left = left.slice(segment[length].length);
  return length;
}

/** What is no condition: its groups may have some. */
function value(list, name) {
  const probed = list.map((each, at) => {
    if (!Array.isArray(each)) return each;
    if (list[at - 1] === "coalesce") return `(${coalesced(each, name)})`;
    return `(${whole(each, name)})`;
  });
  return probed.join("");
}

/** Whether the first one was there. */
function coalesced(list, name) {
  const comma = list.indexOf(",");
  const [first, rest] = [list.slice(0, comma), list.slice(comma)];
  const leaf = plain(first).trim();
  const site = name(`${leaf.replace(/\s+/g, " ")} IS NOT NULL`);
  return `CASE WHEN public.probe('${site}',(${value(first, name)}) IS NOT NULL) THEN ${leaf} END${whole(rest, name)}`;
}

function condition(list, name) {
  const at = list.findIndex((each) => each === "AND" || each === "OR");
  if (at >= 0) {
    return `${condition(list.slice(0, at), name)}${list[at]}${condition(list.slice(at + 1), name)}`;
  }
  const text = plain(list);
  const leaf = text.trim();
  const before = text.slice(0, text.length - text.trimStart().length);
  const after = text.slice(text.trimEnd().length);
  if (leaf === "" || KEY.test(leaf) || ALWAYS.test(leaf.replace(/\s+/g, " "))) {
    return value(list, name);
  }
  const first = list.findIndex((each) => Array.isArray(each) || each.trim() !== "");
  if (list[first] === "NOT") return `${before}NOT${condition(list.slice(first + 1), name)}`;
  const own = list.filter((each) => Array.isArray(each) || each.trim() !== "");
  const [group] = own;
  if (own.length === 1 && Array.isArray(group) && !/^\s*(SELECT|WITH)\b/.test(plain(group))) {
    return `${before}(${condition(group, name)})${after}`;
  }
  const site = name(leaf.replace(/\s+/g, " "));
  return `${before}public.probe('${site}',(${value(list, name).trim()}))${after}`;
}
