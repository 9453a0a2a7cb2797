/**
 * Batches in which many requests contend for one resource: one statement takes all of them, and decides each
 * as lease/queue.ts does, one after the other.
 */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { freshPglite } from "../../../../../tests/support/engines/pglite.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../../tests/support/engines/postgres.js";
import { LONG_MS, requestOf } from "../../../../../tests/support/faults/queue-site.js";
import { grantIdOf, systemEnv, zip } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  acquireInTurn,
  type LeaseRecord,
  type QueuedWaiter,
  RESERVED_MS,
} from "../../lease/index.js";
import { seededRandom } from "../../testing/index.js";
import { shuffled } from "../../testing/shuffled.js";
import { until } from "../../testing/waiting.js";
import { openPostgres, type PostgresDatabase } from "./index.js";

const namespace = "default";
const waits = (resource: string) =>
  requestOf(resource, { queueMs: LONG_MS, holder: `h${(holders += 1)}` });
let holders = 0;

function exercise(open: () => Promise<{ url: string } | { directory: string }>) {
  let database: PostgresDatabase;
  beforeAll(async () => {
    database = await openPostgres(await open(), systemEnv);
  });
  afterAll(() => database?.close());

  const write = (text: string, values: string[]) =>
    database.connections.backend.general.query(text, values);
  /** Sends a batch. */
  async function send(requests: readonly AcquireRequest[]) {
    const sent = vi.spyOn(database.connections.backend.general, "query");
    try {
      const outcomes = await database.leases.acquire(requests, { timeoutMs: 60_000 });
      return { outcomes, statements: sent.mock.calls.length };
    } finally {
      sent.mockRestore();
    }
  }
  const queue = async (resource: string) => {
    const queued = await database.waiters({ namespace, resource });
    return queued.map(({ grantId }) => grantId);
  };
  const idsOf = (requests: readonly AcquireRequest[]) =>
    requests.map(({ leaseId }) => grantIdOf(leaseId));

  it("grants to the first of 300 that wait for one resource, and queues the others, in two statements", async () => {
    const hot = Array.from({ length: 300 }, () => waits("hot"));
    const [free, held] = ["free", "held"].map((state) =>
      Array.from({ length: 40 }, (_, index) => waits(`${state}/${index}`)),
    ) as [AcquireRequest[], AcquireRequest[]];
    const owners = held.map(({ resource }) => requestOf(resource));
    await database.leases.acquire(owners);
    const batch = shuffled([...hot, ...free, ...held]);
    const contenders = batch.filter(({ resource }) => resource === "hot");
    const { outcomes, statements } = await send(batch);
    const answers = new Map(zip(batch, outcomes));

    const [first, ...others] = contenders as [AcquireRequest, ...AcquireRequest[]];
    for (const request of [first, ...free]) {
      expect(answers.get(request)).toMatchObject({ status: "acquired" });
    }
    for (const [ahead, request] of others.entries()) {
      expect(answers.get(request)).toMatchObject({
        status: "held",
        holder: first.holder,
        grantId: grantIdOf(first.leaseId),
        ahead,
      });
    }
    for (const [owner, request] of zip(owners, held)) {
      const grantId = grantIdOf(owner.leaseId);
      expect(answers.get(request)).toMatchObject({ status: "held", grantId, ahead: 0 });
      expect(await queue(request.resource)).toEqual(idsOf([request]));
    }
    expect(await queue("hot")).toEqual(idsOf(others));
    const [view] = await database.leases.get([{ namespace, resource: "hot" }]);
    expect(view).toMatchObject({ state: "live", holder: first.holder });
    // The one that it is granted to, and then the others.
    expect(statements).toBe(2);
  });

  it("keeps the positions of 300 that ask again, in two statements, and serves them in order", async () => {
    let [holder, ...line] = Array.from({ length: 301 }, () => waits("line")) as [
      AcquireRequest,
      ...AcquireRequest[],
    ];
    await database.leases.acquire([holder, ...line]);
    const again = shuffled(line);
    const { outcomes, statements } = await send(again);
    const ahead = outcomes.map((outcome) => outcome.status === "held" && outcome.ahead);
    expect(ahead).toEqual(again.map((request) => line.indexOf(request)));
    // Each stays for longer than it asked for before, which is saved.
    expect(statements).toBe(2);

    // A waiter with ten before it is refused for five seconds, though the resource is free.
    const TEN = 10;
    for (let round = 0; round < 5; round += 1) {
      await database.leases.release([holder]);
      const [head, ...rest] = line as [AcquireRequest, ...AcquireRequest[]];
      const early = shuffled(rest.slice(TEN - 1));
      const late = shuffled(rest);
      const batch = [...early, waits("line"), head];
      const answers = (await send(batch)).outcomes;
      expect(answers.pop()).toMatchObject({ status: "acquired" });
      for (const [request, answer] of zip(batch.slice(0, -1), answers)) {
        const at = line.indexOf(request);
        const position = at < 0 ? line.length : at;
        expect(answer).toMatchObject({ status: "held", holder: head.holder, ahead: position });
        expect(answer).toMatchObject({ grantId: null });
      }
      line = [...rest, batch.at(-2) as AcquireRequest];
      holder = head;
      expect(await queue("line")).toEqual(idsOf(line));
      const polled = await send(late);
      for (const [request, answer] of zip(late, polled.outcomes)) {
        const grantId = grantIdOf(head.leaseId);
        expect(answer).toMatchObject({ status: "held", grantId, ahead: line.indexOf(request) });
      }
    }
  });

  it("reserves the time of every waiter before it", async () => {
    await database.leases.acquire([requestOf("turns")]);
    const { outcomes } = await send(Array.from({ length: 13 }, () => waits("turns")));
    const times = outcomes.map((outcome) =>
      outcome.status === "held" ? (outcome.remainingMs ?? 0) : 0,
    );
    const turns = times.map((time) => Math.round((time - (times[0] ?? 0)) / RESERVED_MS));
    expect(turns).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10]);
  });

  it("counts a waiter whose position has expired behind the others", async () => {
    const [gone, stays, next] = [1, 2, 3].map(() => waits("expired position")) as [
      AcquireRequest,
      AcquireRequest,
      AcquireRequest,
    ];
    await database.leases.acquire([requestOf("expired position"), gone, stays]);
    const expired = "UPDATE leasehold.waiter SET expires_at = now() WHERE lease_id = $1";
    await write(expired, [gone.leaseId]);
    const { outcomes } = await send([next, gone, stays]);
    expect(outcomes).toMatchObject([{ ahead: 1 }, { ahead: 2 }, { ahead: 0 }]);
  });

  it("grants once where several requests are free to have it, whether or not they wait", async () => {
    const held = requestOf("mixed");
    await database.leases.acquire([held]);
    await database.leases.release([held]);
    const [first, second, third] = [requestOf("mixed"), waits("mixed"), requestOf("mixed")];
    const { outcomes } = await send([first, second, first, third, second, held]);
    const refused = { status: "held", grantId: grantIdOf(first.leaseId) };
    expect(outcomes).toMatchObject([
      { status: "acquired" },
      { ...refused, ahead: 0 },
      { status: "acquired" },
      refused,
      { ...refused, ahead: 0 },
      refused,
    ]);
    expect(await queue("mixed")).toEqual(idsOf([second]));
  });

  it.each(Array.from({ length: 25 }, (_, index) => index + 1))(
    "decides a random batch as the rules do (seed %i)",
    async (seed) => {
      const states = Object.keys(STATES) as State[];
      const world = states.map((state) => new Key(`${seed}/${state}`, state, seed));
      for (const key of world) await key.make(database, write);
      const { float } = seededRandom(seed);
      const batch = world
        .flatMap((key) => key.requests(float))
        .map((request) => ({ request, rank: float() }))
        .sort((a, b) => a.rank - b.rank)
        .map(({ request }) => request);
      const outcomes = await database.leases.acquire(batch);
      const keys = new Map(world.map((key) => [key.resource, key]));
      for (const [at, [request, outcome]] of zip(batch, outcomes).entries()) {
        const expected = keys.get(request.resource)?.decide(request);
        expect(withoutTimes(outcome), `${at}: ${request.resource}`).toEqual(
          expected && withoutTimes(expected),
        );
      }
      for (const key of world) {
        const left = key.waiters.map(({ leaseId }) => grantIdOf(leaseId));
        expect(await queue(key.resource), key.resource).toEqual(left);
      }
    },
  );
}

type Decided = ReturnType<typeof acquireInTurn>["outcome"];

/** An outcome, but for its times and token. */
function withoutTimes(outcome: AcquireOutcome | Decided) {
  const { status } = outcome;
  if (status !== "held") return { status };
  return {
    status,
    holder: outcome.holder,
    grantId: outcome.grantId,
    ...(outcome.ahead !== undefined && { ahead: outcome.ahead }),
    isPaused: outcome.remainingMs === null,
  };
}

const FOURTH = 3;
const NOW_MS = 1_000_000;
const set = (what: string) => `UPDATE leasehold.lease SET ${what} WHERE resource = $1`;
/** What happens to a resource that is held, and has waiters. */
const STATES = {
  never: "DELETE FROM leasehold.lease WHERE resource = $1",
  held: null,
  released: set("ended = 'released', expires_at = clock_timestamp()"),
  expired: set("expires_at = clock_timestamp()"),
  revoked: set("ended = 'revoked'"),
  paused: set("paused = true, ended = 'released', expires_at = clock_timestamp()"),
  // The statement for one request leaves the waiter of the one that it grants, here in the fourth place.
  queued: `UPDATE leasehold.waiter w SET lease_id = l.lease_id, holder = l.holder FROM leasehold.lease l
    WHERE l.resource = $1 AND w.resource = $1 AND w.place = (
      SELECT place FROM leasehold.waiter WHERE resource = $1 ORDER BY place OFFSET ${FOURTH} LIMIT 1
    )`,
} as const;
type State = keyof typeof STATES;

/** A resource in some state, as the rules see it, and random requests for it. */
class Key {
  readonly owner: AcquireRequest;
  readonly queued: readonly AcquireRequest[];
  waiters: readonly QueuedWaiter[] = [];
  #record: LeaseRecord | null = null;

  constructor(
    readonly resource: string,
    readonly state: State,
    seed: number,
  ) {
    this.owner = requestOf(resource, { holder: "owner" });
    // Those from the eleventh on have to wait for 5 s, so that the speed of the machine does not matter.
    const count = seed % 3 === 0 ? 0 : 14;
    this.queued = Array.from({ length: count }, () => waits(resource));
  }

  async make(database: PostgresDatabase, write: (text: string, values: string[]) => unknown) {
    await database.leases.acquire([this.owner, ...this.queued]);
    for (const request of [this.owner, ...this.queued]) this.decide(request);
    const change = STATES[this.state];
    if (change !== null) await write(change, [this.resource]);
    if (this.state === "never") this.#record = null;
    if (this.state === "queued") {
      const { leaseId, holder } = this.owner;
      this.waiters = this.waiters.map((waiter, at) =>
        at === FOURTH ? { ...waiter, leaseId, holder } : waiter,
      );
    }
    if (!this.#record) return;
    const isFree = ["released", "expired", "paused"].includes(this.state);
    const expiresAtMs = isFree ? NOW_MS : this.#record.expiresAtMs;
    const ended = { released: "released", paused: "released", revoked: "revoked" } as const;
    const how = ended[this.state as keyof typeof ended] ?? null;
    this.#record = { ...this.#record, expiresAtMs, ended: how };
  }

  requests(float: () => number): AcquireRequest[] {
    const strangers = Array.from({ length: 6 }, () => waits(this.resource));
    const { queueMs: _, ...hasty } = waits(this.resource);
    const own = [this.queued[0], ...this.queued.slice(10)].flatMap((request) => request ?? []);
    const some = [...strangers, hasty, this.owner, ...own].filter(() => float() < 0.6);
    // One of them comes twice.
    return [...some, ...some.slice(0, 1)];
  }

  decide(request: AcquireRequest): Decided {
    const isPaused = this.state === "paused" && this.#record?.expiresAtMs === NOW_MS;
    const next = (last: number) => last + 1;
    const decision = acquireInTurn(this.#record, this.waiters, request, NOW_MS, next, isPaused);
    this.#record = decision.record;
    this.waiters = decision.waiters;
    return decision.outcome;
  }
}

describePostgres("many requests for one resource, on a server", () => {
  let fresh: FreshDatabase;
  afterAll(() => fresh.drop());
  exercise(async () => {
    fresh = await freshDatabase();
    return fresh;
  });

  it("add waiters that another statement adds, too, in the same order", async () => {
    const LOCK = 78;
    const admin = new pg.Client({ connectionString: fresh.url });
    await admin.connect();
    await admin.query(`CREATE FUNCTION pause_waiter() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_advisory_xact_lock(${LOCK}); RETURN NEW; END $$`);
    await admin.query(`CREATE TRIGGER pause_waiter BEFORE INSERT ON leasehold.waiter FOR EACH ROW
      WHEN (NEW.holder = 'pauses') EXECUTE FUNCTION pause_waiter()`);
    const isWaiting = (what: string) =>
      until(expect, `a statement waits for a lock: ${what}`, async () => {
        const { rowCount } = await admin.query(
          "SELECT FROM pg_locks WHERE NOT granted AND locktype = $1",
          [what],
        );
        return rowCount === 1;
      });
    const database = await openPostgres({ url: fresh.url }, systemEnv);
    await database.leases.acquire([requestOf("crossed")]);
    const [first, pauses, last] = ["1", "2", "3"].map((digit) => ({
      ...waits("crossed"),
      leaseId: digit.repeat(48),
    })) as [AcquireRequest, AcquireRequest, AcquireRequest];
    await admin.query("SELECT pg_advisory_lock($1)", [LOCK]);
    const one = database.leases.acquire([first, { ...pauses, holder: "pauses" }, last]);
    await isWaiting("advisory");
    const other = database.leases.acquire([last, first]);
    await isWaiting("transactionid");
    await admin.query("SELECT pg_advisory_unlock($1)", [LOCK]);
    for (const outcome of [...(await one), ...(await other)]) {
      expect(outcome).toMatchObject({ status: "held" });
    }
    const waiting = await database.waiters({ namespace, resource: "crossed" });
    const ids = [first, pauses, last].map(({ leaseId }) => grantIdOf(leaseId));
    expect(waiting.map(({ grantId }) => grantId)).toEqual(ids);
    await database.close();
    await admin.end();
  });
});

describe("many requests for one resource, in PGlite", () => {
  let remove = async () => {};
  afterAll(() => remove());
  exercise(async () => {
    const fresh = await freshPglite();
    remove = fresh.remove;
    return fresh;
  });
});
