/** What an operator behind a server sends: each act says who asks for it and why, and each list all that was asked. */
import { afterEach, expect, test } from "vitest";
import type { OperatorActors } from "../../control/index.js";
import { manualEnv } from "../../testing/index.js";
import { ACTOR_HEADER } from "../../wire/index.js";
import { http } from "./index.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Asked {
  readonly call: string;
  readonly actor: string | undefined;
  readonly reason: unknown;
}

/** @param answer to each call, by its method and path */
async function open(answer: (call: string) => unknown) {
  const asked: Asked[] = [];
  const queries: Record<string, string[]>[] = [];
  const ttl = { minMs: 1, maxMs: 60_000, stepMs: 1 };
  const capabilities = { namespace: "default", leases: { ttl }, tasks: { ttl }, once: true };
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const { pathname, searchParams } = new URL(url);
    if (pathname === "/v1/capabilities") return Response.json(capabilities);
    const call = `${init.method} ${pathname}`;
    const body: unknown = init.body ? JSON.parse(init.body as string) : {};
    const [first] = Array.isArray(body) ? (body as unknown[]) : [body];
    const { reason } = first as { reason?: unknown };
    const headers = init.headers as Record<string, string>;
    asked.push({
      call,
      actor: headers[ACTOR_HEADER],
      reason: reason ?? searchParams.get("reason"),
    });
    const names = [...new Set(searchParams.keys())];
    queries.push(Object.fromEntries(names.map((name) => [name, searchParams.getAll(name)])));
    return Response.json(answer(call));
  };
  const source = http({ url: "http://server", fetch: fetch as typeof globalThis.fetch });
  const stores = await source.open(manualEnv());
  closing.push(() => stores.close());
  const { operator } = stores;
  if (!operator || !("audit" in operator)) throw new Error("no operator");
  return { asked, queries, operator };
}

const namespace = "default";
const pause = { namespace, kind: "prefix" as const, name: "a/" };

test.each<[call: string, act: (actors: OperatorActors) => Promise<unknown>, answer?: unknown]>([
  [
    "POST /v1/leases/revoke",
    ({ leases }) => leases.revoke([{ namespace, resource: "a", free: "now" }]),
    [{ status: "revoked", token: 1, freeInMs: 0 }],
  ],
  ["POST /v1/once/k/retry", ({ once }) => once.retry({ namespace, key: "k" })],
  ["DELETE /v1/once/k", ({ once }) => once.delete({ namespace, key: "k" })],
  ["PUT /v1/pauses", ({ pauses }) => pauses.set({ ...pause, actor: "cli:zoë", reason: "a & b" })],
  ["DELETE /v1/pauses", ({ pauses }) => pauses.clear(pause)],
  [
    "POST /api/x",
    async ({ backing }) => {
      if (backing.kind !== "server") throw new Error("a server is behind it");
      return backing.change(namespace, { method: "POST", path: "/api/x?reason=a+%26+b" });
    },
  ],
])("%s says who asks for it, and why", async (call, act, answer = {}) => {
  const { asked, operator } = await open(() => answer);
  const who = { namespace, actor: "cli:zoë", target: "a", reason: "a & b" };
  await operator.perform({ ...who, action: "lease.revoke" }, async (actors) => ({
    value: await act(actors),
    details: {},
  }));
  expect(asked).toEqual([{ call, actor: "cli%3Azo%C3%AB", reason: "a & b" }]);
});

test("lists are asked for with all filters and the position", async () => {
  const { queries, operator } = await open(() => ({ items: [], nextCursor: null }));
  const page = { namespace, limit: 5, cursor: "9" };
  await operator.audit.list({ ...page, target: "a", actions: ["lease.revoke", "key.create"] });
  await operator.keys.list(page);
  const [limit, cursor] = [["5"], ["9"]];
  const action = ["lease.revoke", "key.create"];
  expect(queries).toEqual([
    { target: ["a"], action, limit, cursor },
    { limit, cursor },
  ]);
});

test("an entry has its claimed actor in its details again, as the store of the server has it", async () => {
  const entry = { seq: 1, at: "t", actor: "key:1", action: "lease.revoke", target: "a" };
  const items = ["cli:zoë", null].map((claimedActor) => ({
    ...entry,
    claimedActor,
    details: { n: 1 },
  }));
  const { operator } = await open(() => ({ items, nextCursor: "1" }));
  const { items: found, nextCursor } = await operator.audit.list({ namespace });
  expect(found.map(({ details }) => details)).toEqual([
    '{"n":1,"claimedActor":"cli:zoë"}',
    '{"n":1}',
  ]);
  expect(found[0]).toMatchObject({ ...entry, namespace });
  expect(nextCursor).toBe("1");
});

test("a verification names the end of the export, and where it begins", async () => {
  const verdict = { ok: true, seq: 9, hash: "h", problem: null };
  const { queries, operator } = await open(() => verdict);
  const [seq, hash] = [["4"], ["g"]];
  await operator.audit.verify({ seq: 4, hash: "g" }, "export");
  await operator.audit.verify({ seq: 4, hash: "g" });
  // Of an empty chain.
  const found = await operator.audit.verify({ seq: 0, hash: "0" });
  expect(found).toEqual({ ok: true, entries: 9, head: { seq: 9, hash: "h" } });
  expect(queries).toEqual([{ seq, hash, from: ["export"] }, { seq, hash }, {}]);
});
