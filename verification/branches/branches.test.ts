/** What is probed in a script and in a statement, and that both say the same as before. */
import { expect, it } from "vitest";

const script = (name: string) => new URL(`./${name}`, import.meta.url).href;
interface Site {
  readonly leaf: string;
  readonly wants: readonly string[];
}
const { probedLua } = (await import(script("lua.js"))) as {
  probedLua(text: string, name: (site: Site) => string): string;
};
const { probedSql } = (await import(script("sql.js"))) as {
  probedSql(text: string, name: (leaf: string) => string): string;
};

function lua(text: string) {
  const sites: string[] = [];
  const probed = probedLua(text, ({ leaf, wants }) => `${sites.push(`${leaf}: ${wants.join()}`)}`);
  return { sites, text: probed.slice(probed.indexOf("end\n") + 4) };
}

function sql(text: string) {
  const leaves: string[] = [];
  const probed = probedSql(text, (leaf) => `${leaves.push(leaf)}`);
  return { leaves, text: probed.replace(/\s+/g, " ").trim() };
}

it("probes each operand of a condition in Lua", () => {
  const { sites, text } = lua("if r and not f(r.a, b or c) or x == 'or' then return 1 end\n");
  expect(text).toBe(
    "if P('3',(r)) and not P('4',(f(r.a, P('1',(b)) or P('2',(c))))) or P('5',(x == 'or')) then return 1 end\n",
  );
  expect(sites).toEqual([
    "b: true,false",
    "c: true",
    "r: true,false",
    "f(r.a, P('1',(b)) or P('2',(c))): true,false",
    "x == 'or': true,false",
  ]);
});

it("wants no value in Lua to be false", () => {
  expect(lua("local at = c[2] == 'now' and now or r.at\n").sites).toEqual([
    "c[2] == 'now': true,false",
    "now: true",
    "r.at: true",
  ]);
  expect(lua("local a = b\nreturn {a, b}\n").sites).toEqual([]);
});

it("probes each operand of a condition in SQL, and keys not", () => {
  const { leaves, text } = sql(
    "SELECT a OR NOT b AS x FROM t WHERE t.id = $1 AND (c IS DISTINCT FROM 'and' OR EXISTS (SELECT FROM u WHERE d))",
  );
  expect(text).toBe(
    "SELECT public.probe('1',(a)) OR NOT public.probe('2',(b)) AS x FROM t WHERE t.id = $1 AND " +
      "(public.probe('3',(c IS DISTINCT FROM 'and')) OR public.probe('4',(EXISTS (SELECT FROM u WHERE public.probe('5',(d))))))",
  );
  expect(leaves.slice(0, 3)).toEqual(["a", "b", "c IS DISTINCT FROM 'and'"]);
});

it("probes the arms of CASE and coalesce in SQL, in assignments too", () => {
  expect(
    sql("UPDATE t SET a = CASE WHEN b THEN 1 ELSE 2 END, c = d OR e, f = coalesce(g, h)").text,
  ).toBe(
    "UPDATE t SET a = CASE WHEN public.probe('1',(b)) THEN 1 ELSE 2 END, " +
      "c = public.probe('2',(d)) OR public.probe('3',(e)), " +
      "f = coalesce(CASE WHEN public.probe('4',(g) IS NOT NULL) THEN g END, h)",
  );
  expect(sql("INSERT INTO t SELECT 1 ON CONFLICT (id) DO NOTHING").leaves).toEqual([]);
  expect(sql("BEGIN").text).toBe("BEGIN");
});
