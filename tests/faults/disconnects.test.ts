/**
 * Every route of the server with a client that disconnects, at each moment of its request and in each host.
 * Afterwards the server works on nothing, a repetition of the request is answered as the first one or as its
 * repetition would have been, and it leaves what those leave.
 */
import { afterEach, describe, expect, it } from "vitest";
import { newLeaseId, systemEnv, taskIds } from "../../packages/leasehold/src/env/index.js";
import { toWireLeaseId } from "../../packages/leasehold/src/wire/index.js";
import { GeneratorState } from "../../packages/leasehold-server/src/generator/state.js";
import {
  CONTROL_ENGINES,
  type OpenedControl,
  SQL_ENGINES,
} from "../support/engines/control-engines.js";
import {
  MOMENTS,
  type Moment,
  openDisconnecting,
  openTransactions,
} from "../support/faults/disconnecting.js";
import { ACCESS_EXAMPLES } from "../support/server/access-examples.js";
import { ROUTE_RULES } from "../support/server/declared-routes.js";
import { HOSTS } from "../support/server/http-hosts.js";
import { OpenApi } from "../support/server/openapi.js";
import { type Request, type Thing, Things } from "../support/server/tenants.js";

const NAMESPACE = "default";
const { random, clock } = systemEnv;
const newTaskId = taskIds(clock, random);

/** Requests that can be repeated because their caller chooses an id, instead of the examples without one. */
const CHOSEN: Readonly<Record<string, (thing: Thing) => Promise<Partial<Request>>>> = {
  "POST /api/tasks": async () => ({ body: { task_data: 1, id: newTaskId() } }),
  "POST /api/tasks/next": async (thing) => {
    const { queue } = await thing.pending();
    return { body: { processor: "asker", queues: [queue], claimId: newLeaseId(random) } };
  },
  "POST /api/leases": async ({ resource }) => acquire(resource, "holder"),
  "POST /v1/locks/acquire": async ({ resource }) => acquire(resource, "ownerId"),
  "POST /v1/leases/acquire": async ({ resource }) => {
    const leaseId = toWireLeaseId(resource, newLeaseId(random));
    return { body: [{ leaseId, holder: "asker", ttlMs: 30_000 }] };
  },
};
function acquire(resource: string, holder: string) {
  const leaseId = toWireLeaseId(resource, newLeaseId(random));
  return { body: { resource, [holder]: "asker", leaseId } };
}

/** Of these, a repetition answers or does something else than the first request, beside its audit entry. */
const UNREPEATABLE = [
  "DELETE /api/tasks/{id}",
  "POST /v1/keys",
  "POST /v1/keys/{id}/rotate",
  "POST /v1/schedules/{name}/run",
];

/** Whether the request cannot have been handled, may have been, or must have been. */
const AS = {
  "before its request is handled": "early",
  "while its body is uploaded": "uploading",
  "while its call is on the way to the store": "early",
  "after the store has acted": "late",
  "before it reads the answer": "late",
} as const satisfies Readonly<Record<Moment, string>>;

const EVERY = Object.keys(MOMENTS) as Moment[];
/** The moments at which a read can leave something behind: it changes nothing. */
const FOR_READERS: ReadonlySet<Moment> = new Set([
  "before its request is handled",
  "while its call is on the way to the store",
]);
/** What hosts could do differently: bodies, waits and streams. */
const FOR_HOLDERS: ReadonlySet<string> = new Set([
  ...[...ROUTE_RULES]
    .filter(([, { need = "" }]) => ["hold", "work"].includes(need))
    .map(([name]) => name),
  "GET /v1/events",
  "GET /v1/activity",
  "GET /api/tasks/{id}",
]);

const [MEMORY] = CONTROL_ENGINES;
const SQL = SQL_ENGINES.filter(({ name }) => name === "PostgreSQL");

/** What there is of a thing, and how much of all else. Numbers count. */
async function stateOf(stores: OpenedControl, { resource, mark }: Thing) {
  const { leases, tasks, control, backing } = stores;
  const keys = [resource, `${resource}/new`].map((name) => ({
    namespace: NAMESPACE,
    resource: name,
  }));
  const [views, { items }, known, pauses, audited, limits, generating, counts] = await Promise.all([
    leases.get(keys),
    tasks.list({ namespace: NAMESPACE, queue: mark }),
    control.keys.list({ namespace: NAMESPACE, limit: 1_000 }),
    control.pauses.list(NAMESPACE),
    control.audit.head(),
    control.limits.read(NAMESPACE),
    new GeneratorState(backing).read(NAMESPACE),
    tasks.counts(NAMESPACE),
  ]);
  const details = await Promise.all(items.map(({ id }) => tasks.get({ namespace: NAMESPACE, id })));
  return {
    texts: {
      leases: views.map((view) => view && `${view.state} ${view.holder}`).join(),
      tasks: details.map((task) => [task?.state, ...(task?.attempts ?? []).map((a) => a.result)]),
      limits,
      generating,
    },
    counts: {
      ...counts,
      keys: known.items.length,
      revoked: known.items.filter(({ revoked }) => revoked).length,
      pauses: pauses.length,
      audited: audited.seq,
    },
  };
}
type State = Awaited<ReturnType<typeof stateOf>>;

/** The state after it as text, with what has become more or less. */
function changed(before: State, { texts, counts }: State, { mark }: Thing): string {
  const more = Object.entries(counts).map(([name, count]) => [
    name,
    count - Reflect.get(before.counts, name),
  ]);
  const state = [texts, more.filter(([, change]) => change !== 0)];
  return JSON.stringify(state).replaceAll(mark, "its holder");
}

async function requestOf(name: string, thing: Thing): Promise<Request> {
  const [method = "", path = ""] = name.split(" ");
  const made = await (CHOSEN[name] ?? ACCESS_EXAMPLES[name]?.request)?.(thing);
  if (!made) throw new Error(`no example of ${name}`);
  return { method, path, ...made };
}

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** But for the entry that each operator action has in the audit. */
function unaudited([, state]: Effect): string {
  return state.replace(/,?\["audited",\d+\]/, "");
}

/** The answer that counts and the state after it: problems differ in the id of their request. */
type Effect = readonly [status: number, state: string];

describe("a client that disconnects", () => {
  it("leaves nothing behind, whatever it asked for", async () => {
    await exercise(MEMORY, "listen()", { routes: () => true, moments: EVERY });
  });

  for (const host of Object.keys(HOSTS).filter((name) => name !== "listen()")) {
    it(`leaves nothing behind in ${host}`, async () => {
      await exercise(MEMORY, host, { routes: (name) => FOR_HOLDERS.has(name), moments: EVERY });
    });
  }
});

for (const engine of SQL) {
  engine.describe("a client that disconnects", () => {
    it(`leaves nothing behind over ${engine.name}, and no open transaction`, async () => {
      const { query } = await exercise(engine, "listen()", {
        routes: (name) => !name.startsWith("GET"),
        moments: ["after the store has acted"],
      });
      await expect.poll(() => openTransactions(query), { timeout: 60_000 }).toEqual([]);
    });
  });
}

async function exercise<Opened extends OpenedControl>(
  engine: { open(): Promise<Opened> } | undefined,
  host: string,
  { routes, moments }: { routes: (name: string) => boolean; moments: readonly Moment[] },
): Promise<Opened> {
  if (!engine) throw new Error("no engine");
  const stores = await engine.open();
  closing.push(() => stores.close());
  const { ask, leave, gate, close } = await openDisconnecting(stores, host);
  closing.push(close);
  const things = new Things(stores, systemEnv);
  const newCase = async (name: string) => {
    const thing = things.make(NAMESPACE, true);
    const request = await requestOf(name, thing);
    const before = await stateOf(stores, thing);
    const send = async (): Promise<Effect> => {
      const { status } = await ask(request);
      return [status, changed(before, await stateOf(stores, thing), thing)];
    };
    return { request, send };
  };

  const document = JSON.parse((await ask({ method: "GET", path: "/openapi.json" })).text);
  const names = new OpenApi(document).operations.map((each) => `${each.method} ${each.template}`);
  expect(Object.keys(ACCESS_EXAMPLES).sort(), "an example of each route").toEqual(names.sort());
  const wrong: string[] = [];
  const unrepeatable: string[] = [];
  for (const name of names.filter(routes)) {
    const { send } = await newCase(name);
    const [first, second] = [await send(), await send()];
    expect(first[0], name).toBeLessThan(300);
    if (first[0] !== second[0] || unaudited(first) !== unaudited(second)) unrepeatable.push(name);
    for (const moment of moments) {
      const { request, send: sendAgain } = await newCase(name);
      if (moment === "while its body is uploaded" && request.body === undefined) continue;
      if (request.method === "GET" && !FOR_READERS.has(moment)) continue;
      await leave(moment, request);
      const again = await sendAgain();
      const allowed = { uploading: [first], early: [first, second], late: [second] }[AS[moment]];
      if (allowed.some((effect) => `${effect}` === `${again}`)) continue;
      wrong.push(`${name}, ${moment}: ${again.join(" ")} instead of ${allowed.join(" or ")}`);
    }
  }
  expect(wrong).toEqual([]);
  expect(unrepeatable).toEqual(UNREPEATABLE.filter(routes));
  await close();
  expect({ calls: gate.inFlight, watches: gate.watches }).toEqual({ calls: 0, watches: 0 });
  return stores;
}
