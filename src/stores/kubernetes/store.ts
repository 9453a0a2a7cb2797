/**
 * Leases as Lease objects. Each request reads one object, decides by the rules and puts it back under
 * the resourceVersion that it was read with:
 *
 *   GET ──▶ decide ──▶ PUT ──▶ 200: so it is
 *    ▲         │         ├──▶ 409, 404: somebody was faster; look again
 *    │         │         └──▶ no answer: nobody knows (`maybe`)
 *    │         └──▶ nothing to write: the answer
 *    └── 404: POST an object that nobody holds, then go on with it
 *
 * A write that arrives late finds another version and does nothing. Renewals and releases begin with
 * the version that this store has seen last, without the GET.
 *
 * What has run out is known by observation: see observations.ts.
 */
import type { Env } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  type CallOptions,
  type Capabilities,
  type Failed,
  failedMaybe,
  type Key,
  type LeaseStore,
  type LeaseView,
  type ListQuery,
  type Page,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  rules,
  StoreMisconfiguredError,
  type WatchEvent,
} from "../../lease/index.js";
import { type Answer, DEFAULT_BUDGET_MS, type KubernetesApi, type LeaseList } from "./api.js";
import {
  decideAcquire,
  decideRelease,
  decideRenew,
  decideRevoke,
  type Found,
  type Step,
  WHOLE_MS,
} from "./decide.js";
import {
  forgottenIn,
  freedWallMsOf,
  GRANT_LABEL,
  isHeld,
  isOurs,
  keyOf,
  type LeaseObject,
  newObject,
  type Observed,
  recordOf,
  viewIn,
} from "./lease-object.js";
import { objectNameOf } from "./names.js";
import { Observations } from "./observations.js";
import { followLeases, selectorOf } from "./watch.js";

/** Objects of one batch that are worked on at a time. */
const CONCURRENCY = 32;
const PAGE = 500;

type Decide<Outcome> = (found: Found) => Step<Outcome>;

export class KubernetesLeaseStore implements LeaseStore {
  readonly capabilities: Capabilities = {
    clock: "observed",
    grants: "portable",
    // client-go reads whole seconds: of renewals that are closer together it sees only some.
    ttl: { minMs: 2 * WHOLE_MS, maxMs: 2_147_483 * WHOLE_MS, stepMs: WHOLE_MS },
    queue: false,
    watch: "push",
    // Counted from when a contender has seen the record for its whole duration.
    epsilonMs: 0,
  };
  readonly #api: KubernetesApi;
  readonly #env: Env;
  readonly #observations = new Observations();

  constructor(api: KubernetesApi, env: Env) {
    this.#api = api;
    this.#env = env;
  }

  acquire(requests: readonly AcquireRequest[], options?: CallOptions): Promise<AcquireOutcome[]> {
    return this.#each(requests, options, decideAcquire, false);
  }

  renew(requests: readonly RenewRequest[], options?: CallOptions): Promise<RenewOutcome[]> {
    return this.#each(requests, options, decideRenew, true);
  }

  release(requests: readonly ReleaseRequest[], options?: CallOptions): Promise<ReleaseOutcome[]> {
    return this.#each(requests, options, decideRelease, true);
  }

  revoke(requests: readonly RevokeRequest[], options?: CallOptions): Promise<RevokeOutcome[]> {
    return this.#each(requests, options, decideRevoke, false);
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    const deadlineMs = this.#deadlineMs();
    const views = new Array<LeaseView | null>(keys.length);
    await inParallel([...keys.entries()], async ([index, { namespace, resource }]) => {
      const key = { namespace, resource };
      const found = await this.#find(key, objectNameOf(key), deadlineMs);
      views[index] = viewIn(key, found, found.nowMs);
    });
    return views;
  }

  async list(query: ListQuery): Promise<Page<LeaseView>> {
    const { namespace, prefix = "", states, renewedOnly = false, limit = 100, cursor } = query;
    const found: LeaseView[] = [];
    for (const observed of await this.#all(selectorOf(namespace))) {
      const key = keyOf(observed.object);
      if (key?.namespace !== namespace || !key.resource.startsWith(prefix)) continue;
      if (cursor !== undefined && byBytes(key.resource, cursor) <= 0) continue;
      const view = viewIn(key, observed, this.#env.clock.monotonic());
      if (!view || (states && !states.includes(view.state))) continue;
      if (!renewedOnly || view.renewedAt !== null) found.push(view);
    }
    found.sort((a, b) => byBytes(a.resource, b.resource));
    const items = found.slice(0, limit);
    const more = found.length > items.length;
    return { items, nextCursor: more ? (items.at(-1)?.resource ?? null) : null };
  }

  watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, void> {
    // Whoever waits knows the age of what others hold from here, not from when it next looks.
    const observe = (object: LeaseObject, deleted: boolean) => {
      if (deleted) this.#observations.forget(object.metadata.name);
      else this.#observations.note(object, this.#env.clock.monotonic());
    };
    return followLeases(this.#api, namespace, observe, { signal, env: this.#env });
  }

  /** Objects stay, as other clients expect: what goes is what they tell of grants that have ended. */
  async collect(olderThanMs: number): Promise<number> {
    const { clock } = this.#env;
    let collected = 0;
    await inParallel(await this.#all({ labelSelector: GRANT_LABEL }), async (observed) => {
      const { object } = observed;
      const [key, record] = [keyOf(object), recordOf(observed)];
      const times = { nowMs: clock.monotonic(), wallMs: clock.wall() };
      if (!key || !record || !isOurs(object, record)) return;
      if (rules.excludes(record, times.nowMs)) return;
      const endedMs = isHeld(object)
        ? times.nowMs - record.expiresAtMs
        : times.wallMs - freedWallMsOf(object);
      if (endedMs <= olderThanMs) return;
      const answer = await this.#put(forgottenIn(object, key, times), this.#deadlineMs());
      if (answer.status < 300) collected += 1;
    });
    return collected;
  }

  async close(): Promise<void> {
    this.#api.close();
  }

  /** One outcome per request. Those of one key are decided in order, others side by side. */
  async #each<Request extends Key, Outcome>(
    requests: readonly Request[],
    { timeoutMs = DEFAULT_BUDGET_MS }: CallOptions = {},
    decide: (request: Request, found: Found) => Step<Outcome>,
    fromMemory: boolean,
  ): Promise<(Outcome | Failed)[]> {
    const deadlineMs = this.#env.clock.monotonic() + timeoutMs;
    const outcomes = new Array<Outcome | Failed>(requests.length);
    const byName = new Map<string, number[]>();
    for (const [index, request] of requests.entries()) {
      const name = objectNameOf(request);
      const indexes = byName.get(name);
      if (indexes) indexes.push(index);
      else byName.set(name, [index]);
    }
    await inParallel([...byName], async ([name, indexes]) => {
      for (const index of indexes) {
        const request = requests[index] as Request;
        const decideIt = (found: Found) => decide(request, found);
        const deciding = this.#decide(request, name, decideIt, deadlineMs, fromMemory);
        outcomes[index] = await deciding.catch(failedMaybe);
      }
    });
    return outcomes;
  }

  async #decide<Outcome>(
    key: Key,
    name: string,
    decide: Decide<Outcome>,
    deadlineMs: number,
    fromMemory: boolean,
  ): Promise<Outcome> {
    const remembered = fromMemory ? this.#observations.get(name) : undefined;
    if (remembered) {
      const step = decide(this.#now(remembered, null));
      // What memory refuses, the object itself may allow.
      if (step.write && (await this.#write(step.write, step, deadlineMs))) return step.outcome;
    }
    for (;;) {
      let found: Found | null = await this.#find(key, name, deadlineMs);
      if (decide(found).write && !found.object.metadata.resourceVersion) {
        found = await this.#create(found.object, deadlineMs);
      }
      if (!found) continue;
      const step = decide(found);
      if (!step.write || (await this.#write(step.write, step, deadlineMs))) return step.outcome;
    }
  }

  /** What there is, or would have to be created. */
  async #find(key: Key, name: string, deadlineMs: number): Promise<Found> {
    const answer = await this.#api.send({ verb: "get", name, deadlineMs });
    if (answer.status === 404) {
      this.#observations.forget(name);
      const nowMs = this.#env.clock.monotonic();
      const observed = { object: newObject(name, key), receivedMs: nowMs, trustFromMs: null };
      return this.#now(observed, answer.wallMs);
    }
    const found = this.#received(answer);
    const owner = keyOf(found.object);
    if (owner && (owner.namespace !== key.namespace || owner.resource !== key.resource)) {
      throw new StoreMisconfiguredError(
        `the Lease object ${name} belongs to the resource "${owner.resource}" of the namespace "${owner.namespace}", by its annotations: delete it if they were edited`,
      );
    }
    return found;
  }

  /** @returns null if somebody else was faster */
  async #create(body: LeaseObject, deadlineMs: number): Promise<Found | null> {
    const answer = await this.#api.send({ verb: "create", body, deadlineMs });
    return answer.status === 409 ? null : this.#received(answer);
  }

  /** @returns false if there is another version by now */
  async #write(body: LeaseObject, step: Step<unknown>, deadlineMs: number): Promise<boolean> {
    const answer = await this.#put(body, deadlineMs);
    if (answer.status >= 300) return false;
    const nowMs = this.#env.clock.monotonic();
    this.#observations.note(answer.body as LeaseObject, nowMs, step.trustFromMs);
    return true;
  }

  #put(body: LeaseObject, deadlineMs: number): Promise<Answer> {
    const { name } = body.metadata;
    return this.#api.send({ verb: "update", name, body, deadlineMs });
  }

  #received({ body, wallMs }: Answer): Found {
    const nowMs = this.#env.clock.monotonic();
    return this.#now(this.#observations.note(body as LeaseObject, nowMs), wallMs);
  }

  #now(observed: Observed, serverWallMs: number | null): Found {
    const { clock } = this.#env;
    return { ...observed, nowMs: clock.monotonic(), wallMs: clock.wall(), serverWallMs };
  }

  /** All objects that a selector finds. */
  async #all(selector: Readonly<Record<string, string>>): Promise<Observed[]> {
    const deadlineMs = this.#deadlineMs();
    const found: Observed[] = [];
    let next: string | undefined;
    do {
      const rest: Record<string, string> = next === undefined ? {} : { continue: next };
      const query = { ...selector, limit: String(PAGE), ...rest };
      const { status, body } = await this.#api.send({ verb: "list", query, deadlineMs });
      if (status === 410) {
        // It took too long, and what the first pages were of is forgotten.
        found.length = 0;
        next = undefined;
        continue;
      }
      const { items, metadata } = body as LeaseList;
      const nowMs = this.#env.clock.monotonic();
      for (const object of items) found.push(this.#observations.note(object, nowMs));
      next = metadata.continue || undefined;
    } while (next !== undefined);
    return found;
  }

  #deadlineMs(): number {
    return this.#env.clock.monotonic() + DEFAULT_BUDGET_MS;
  }
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  const worker = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, items.length) }, worker));
}
