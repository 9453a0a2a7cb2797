/**
 * Calls every operation of /openapi.json as every caller: without a key, with a wrong, an expired and a
 * revoked key, and with a key of every role; about things of the caller's tenant and of another one.
 */
import { afterEach, expect, it } from "vitest";
import type { Role } from "../../packages/leasehold/src/control/index.js";
import { sleep, systemEnv } from "../../packages/leasehold/src/env/index.js";
import { CONTROL_ENGINES } from "../support/engines/control-engines.js";
import { ACCESS_EXAMPLES, type AccessExample } from "../support/server/access-examples.js";
import { ROUTE_RULES } from "../support/server/declared-routes.js";
import { OpenApi, type Operation } from "../support/server/openapi.js";
import { type Answer, openTenants, type Request, type Thing } from "../support/server/tenants.js";

const [OURS, THEIRS] = ["a", "b"];

/** Written down once more, so that a slip in the server's own table is seen. */
const MAY: Readonly<Record<string, readonly Role[]>> = {
  scrape: ["scraper", "viewer", "holder", "operator", "admin"],
  read: ["viewer", "holder", "operator", "admin"],
  readTasks: ["viewer", "holder", "operator", "admin"],
  readAll: ["viewer", "holder", "operator", "admin"],
  hold: ["holder", "admin"],
  work: ["holder", "admin"],
  operate: ["operator", "admin"],
  administer: ["admin"],
};

type Tenants = ReturnType<typeof openTenants>;

interface Asker {
  readonly key: string | null;
  /** Null: the caller has no valid key. */
  readonly role: Role | null;
  /** Of a holder. */
  readonly prefixes?: readonly string[];
}

const LIFETIME_MS = 50;

/** One of each kind, of OURS. */
async function newAskers({ ask, newKey }: Tenants): Promise<Readonly<Record<string, Asker>>> {
  const key = async (role: Role, options = {}) => (await newKey(OURS, role, options)).text;
  const admin = await key("admin");
  const expired = await key("admin", { lifetimeMs: LIFETIME_MS });
  await sleep(systemEnv.clock, LIFETIME_MS);
  const revoked = await newKey(OURS, "admin");
  await ask(admin, { method: "DELETE", path: `/v1/keys/${revoked.key.id}` });
  const holder = async (...prefixes: string[]): Promise<Asker> => ({
    key: await key("holder", { prefixes }),
    role: "holder",
    prefixes,
  });
  return {
    "no key": { key: null, role: null },
    "a wrong key": { key: `${admin.slice(0, -38)}${"0".repeat(32)}`, role: null },
    "an unknown key": { key: `lh_${"0".repeat(12)}_${"0".repeat(32)}`, role: null },
    "an expired key": { key: expired, role: null },
    "a revoked key": { key: revoked.text, role: null },
    "a scraper": { key: await key("scraper"), role: "scraper" },
    "a viewer": { key: await key("viewer"), role: "viewer" },
    "a holder of what is asked for": await holder("own/", "once:own/", "task:"),
    "a holder of other things": await holder("other/"),
    "a holder of anything": await holder(""),
    "an operator": { key: await key("operator"), role: "operator" },
    "an admin": { key: admin, role: "admin" },
  };
}

function only(askers: Readonly<Record<string, Asker>>, name: string) {
  return Object.fromEntries(Object.entries(askers).filter(([each]) => each === name));
}

function nameOf({ method, template }: Operation): string {
  return `${method} ${template}`;
}

/** 200: whatever success is. */
function expectedOf({ needs: need, names }: AccessExample, { role, prefixes }: Asker): number {
  if (need === "public") return 200;
  if (role === null) return 401;
  if (!MAY[need]?.includes(role)) return 403;
  const covered = prefixes?.some((own) => names?.startsWith(own)) ?? true;
  return names === undefined || covered ? 200 : 403;
}

async function requestOf(name: string, example: AccessExample, thing: Thing): Promise<Request> {
  const [method = "", template = ""] = name.split(" ");
  return { method, path: template, ...(await example.request(thing)) };
}

/** But for what differs anyway: the id of the request, the name that was asked for, what time it is. */
function comparable({ status, text }: Answer, { resource }: Thing): string {
  const same = text
    .replace(/"requestId":"[^"]*"/, "")
    .replace(/"createdAt":"[^"]*","auditSeq":\d+/, "")
    .replace(/"forMs":\d+/, "")
    .replaceAll(`"${resource}"`, "");
  return `${status} ${same}`;
}

function problemOf({ status, headers, text }: Answer, expected: number): string | null {
  if (expected === 200) return status >= 200 && status < 300 ? null : `${status}: ${text}`;
  if (status !== expected) return `${status} instead of ${expected}: ${text}`;
  const { code } = JSON.parse(text) as { code: string };
  const wanted = expected === 401 ? "UNAUTHENTICATED" : "FORBIDDEN";
  if (code !== wanted) return `${code} instead of ${wanted}`;
  const challenge = headers.get("www-authenticate")?.startsWith("Bearer") ?? false;
  return challenge === (expected === 401) ? null : "www-authenticate belongs to 401";
}

/** What each operation says it needs. */
async function readNeeds({ ask }: Tenants): Promise<ReadonlyMap<string, unknown>> {
  const { text } = await ask(null, { method: "GET", path: "/openapi.json" });
  const { operations } = new OpenApi(JSON.parse(text));
  return new Map(
    operations.map((operation) => [nameOf(operation), Reflect.get(operation, "x-needs")]),
  );
}

for (const engine of CONTROL_ENGINES.filter(({ name }) => name !== "PGlite")) {
  engine.describe(`access to a server over ${engine.name}`, () => {
    const closing: (() => Promise<void>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0)) await close();
    });
    const open = async (): Promise<Tenants> => {
      const stores = await engine.open();
      const tenants = openTenants(stores, systemEnv);
      closing.push(
        () => tenants.app.close(),
        () => stores.close(),
      );
      return tenants;
    };

    it("is documented for every operation, and each has an example here", async () => {
      const needs = await readNeeds(await open());
      const documented = [...needs.keys()].sort();
      expect([...ROUTE_RULES.keys()].sort()).toEqual(documented);
      expect(Object.keys(ACCESS_EXAMPLES).sort()).toEqual(documented);
      const unlike = Object.entries(ACCESS_EXAMPLES)
        .filter(([name, example]) => needs.get(name) !== example.needs)
        .map(([name]) => name);
      expect(unlike).toEqual([]);
    });

    it("is granted to the right roles, and reveals nothing of another tenant", async () => {
      const { ask, things, ...tenants } = await open();
      const all = await newAskers({ ask, things, ...tenants });
      // The server checks roles before it asks the store, so one engine is enough for the other callers.
      const askers = engine.name === "memory" ? all : only(all, "an admin");
      const wrong: string[] = [];
      const counts: Record<number, number> = { 200: 0, 401: 0, 403: 0 };
      let cells = 0;
      let compared = 0;
      for (const [name, example] of Object.entries(ACCESS_EXAMPLES)) {
        for (const [who, asker] of Object.entries(askers)) {
          for (const owner of [OURS, THEIRS]) {
            cells += 1;
            const expected = expectedOf(example, asker);
            counts[expected] = (counts[expected] ?? 0) + 1;
            const thing = things.make(owner, true);
            const answer = await ask(asker.key, await requestOf(name, example, thing));
            const cell = `${name} by ${who} about what is of ${owner}`;
            if (owner === OURS || example.about === "tenant" || expected !== 200) {
              const problem = problemOf(answer, expected);
              if (problem !== null) wrong.push(`${cell}: ${problem}`);
            } else {
              compared += 1;
              const missing = things.make(THEIRS, false);
              const asked = await requestOf(name, example, missing);
              const unknown = comparable(await ask(asker.key, asked), missing);
              if (comparable(answer, thing) !== unknown) {
                wrong.push(`${cell}: ${answer.text}, for a missing one ${unknown}`);
              }
            }
            if (answer.text.includes(`of-${THEIRS}-`)) wrong.push(`${cell}: reveals ${THEIRS}`);
          }
        }
      }
      expect(wrong).toEqual([]);
      expect(compared).toBeGreaterThanOrEqual(20);
      console.log(
        `access over ${engine.name}: ${Object.keys(ACCESS_EXAMPLES).length} operations x ${Object.keys(askers).length} callers x 2 tenants = ${cells} cells: ` +
          `${counts[200]} allowed, ${counts[401]} without a valid key, ${counts[403]} forbidden; ` +
          `${compared} about another tenant's things compared with missing ones`,
      );
    });
  });
}
