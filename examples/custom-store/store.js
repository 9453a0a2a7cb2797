/**
 * A custom lease store: it applies the rules of the package to one value that changes by compare-and-swap.
 * Any such value works: a file, an object in a bucket (If-Match), a key with a revision. A batch is one
 * swap. After a lost swap the store applies the rules again to the new value.
 */
import { ClosedError, StoreUnavailableError } from "leasehold";
import { cursorAfter, grantIdOf, resourceOfCursor, rules } from "leasehold/port";
import { Cell } from "./cell.js";

/**
 * @typedef {import("leasehold/port").LeaseStore} LeaseStore
 * @typedef {import("leasehold/port").LeaseRecord} LeaseRecord
 * @typedef {import("leasehold/port").LeaseView} LeaseView
 * @typedef {import("leasehold/port").Key} Key
 * @typedef {import("leasehold/port").Failed} Failed
 *
 * @typedef {object} State
 * @property {[name: string, record: LeaseRecord][]} records The last grant of each key.
 * @property {number} floor The largest token that was collected.
 */

const WHAT = "the store in this folder";
const LONGEST_MS = 5_000;

/** Leases in a folder, for all processes of one machine. */
export class FolderStore {
  /** @type {LeaseStore["capabilities"]} */
  capabilities = {
    clock: "store",
    grants: "portable",
    ttl: { minMs: 1, maxMs: 2 ** 31 - 1, stepMs: 1 },
    queue: false,
    watch: "poll",
    epsilonMs: 0,
  };
  /** @type {Cell<State>} */
  #cell;
  #nowMs;
  #closed = false;
  /** @type {Set<() => void>} */
  #watching = new Set();
  /** @type {Promise<void>} */
  #turn = Promise.resolve();

  /**
   * @param {Cell<State>} cell
   * @param {() => number} nowMs
   */
  constructor(cell, nowMs) {
    this.#cell = cell;
    this.#nowMs = nowMs;
  }

  /**
   * @param {string} folder created if it does not exist
   * @param {() => number} [nowMs] The store's clock. Default: the machine's clock, which all processes
   *   share. If an operator sets it forward, leases end early. Their holders notice, because
   *   `checkAlive()` uses the same clock.
   */
  static async open(folder, nowMs = Date.now) {
    const cell = /** @type {Cell<State>} */ (new Cell(folder));
    await cell.open({ records: [], floor: 0 });
    return new FolderStore(cell, nowMs);
  }

  /** @type {LeaseStore["acquire"]} */
  acquire(requests, options) {
    return this.#decide(requests, options, (record, request, nowMs, floor) => {
      // By the clock, so that tokens grow even if the folder is deleted.
      const token = (/** @type {number} */ last) => rules.nextToken(last, floor, nowMs * 1_000);
      return rules.acquire(record, request, nowMs, token);
    });
  }

  /** @type {LeaseStore["renew"]} */
  renew(requests, options) {
    return this.#decide(requests, options, rules.renew);
  }

  /** @type {LeaseStore["release"]} */
  release(requests, options) {
    return this.#decide(requests, options, rules.release);
  }

  /** @type {LeaseStore["revoke"]} */
  revoke(requests, options) {
    return this.#decide(requests, options, rules.revoke);
  }

  /** @type {LeaseStore["get"]} */
  async get(keys) {
    const records = await this.#records();
    return keys.map((key) => {
      const record = records.get(nameOf(key));
      return record ? this.#view(key, record) : null;
    });
  }

  /** @type {LeaseStore["list"]} */
  async list({ namespace, prefix = "", states, renewedOnly = false, limit = 100, cursor }) {
    const after = cursor === undefined ? undefined : resourceOfCursor(cursor);
    const found = [...(await this.#records())]
      .map(([name, record]) => this.#view(keyOf(name), record))
      .filter((view) => view.namespace === namespace && view.resource.startsWith(prefix))
      .filter((view) => !states || states.includes(view.state))
      .filter((view) => !renewedOnly || view.renewedAt !== null)
      .filter((view) => after === undefined || compareBytes(view.resource, after) > 0)
      .sort((a, b) => compareBytes(a.resource, b.resource));
    const items = found.slice(0, limit);
    const last = found.length > limit ? items.at(-1) : undefined;
    return { items, nextCursor: last ? cursorAfter(last.resource) : null };
  }

  /** @type {LeaseStore["watch"]} */
  async *watch(_namespace, { signal }) {
    this.#checkOpen();
    if (signal.aborted) return;
    // With `watch: "poll"` this is all that there is to say.
    yield { type: "resync" };
    if (signal.aborted || this.#closed) return;
    let end = () => {};
    const ended = new Promise((resolve) => {
      end = () => resolve(undefined);
    });
    this.#watching.add(end);
    signal.addEventListener("abort", end);
    await ended;
    this.#watching.delete(end);
    signal.removeEventListener("abort", end);
  }

  /** @type {LeaseStore["collect"]} */
  async collect(olderThanMs) {
    this.#checkOpen();
    for (;;) {
      const read = await this.#cell.read();
      const { records, floor } = read.value;
      const endedBeforeMs = this.#nowMs() - olderThanMs;
      const isOld = (/** @type {LeaseRecord} */ record) =>
        !rules.excludes(record, this.#nowMs()) && record.expiresAtMs < endedBeforeMs;
      const old = records.filter(([, record]) => isOld(record));
      if (old.length === 0) return 0;
      const tokens = old.map(([, { token }]) => token);
      const kept = records.filter((entry) => !old.includes(entry));
      const next = { records: kept, floor: Math.max(floor, ...tokens) };
      if ((await this.#cell.swap(read, next)) === "won") return old.length;
    }
  }

  /** Ends watches and refuses every later call. The folder stays. */
  async close() {
    this.#closed = true;
    for (const end of this.#watching) end();
    await this.#turn;
  }

  /**
   * @template {Key} Request
   * @template {{ status: string }} Outcome
   * @param {readonly Request[]} requests
   * @param {import("leasehold/port").CallOptions | undefined} options
   * @param {(record: LeaseRecord | null, request: Request, nowMs: number, floor: number) =>
   *   import("leasehold/port").Decision<Outcome>} rule
   * @returns {Promise<(Outcome | Failed)[]>} an outcome for each request, also when nothing works
   */
  async #decide(requests, { timeoutMs = LONGEST_MS } = {}, rule) {
    const deadlineMs = performance.now() + timeoutMs;
    /** @type {Failed["applied"]} */
    let applied = "no";
    try {
      return await this.#inTurn(async () => {
        while (performance.now() < deadlineMs) {
          this.#checkOpen();
          const read = await this.#cell.read();
          const records = new Map(read.value.records);
          const nowMs = this.#nowMs();
          let changed = false;
          const outcomes = requests.map((request) => {
            const name = nameOf(request);
            const before = records.get(name) ?? null;
            const { record, outcome } = rule(before, request, nowMs, read.value.floor);
            if (record && record !== before) {
              records.set(name, record);
              changed = true;
            }
            return /** @type {Outcome} */ (withExpiry(outcome, nowMs));
          });
          if (!changed) return outcomes;
          // If the next line throws, the change may have been applied.
          applied = "maybe";
          const swapped = await this.#cell.swap(read, { ...read.value, records: [...records] });
          if (swapped === "won") return outcomes;
          if (swapped === "unknown") throw new Error("overtaken while it stood still");
          applied = "no";
        }
        throw new Error(`no turn within ${timeoutMs} ms`);
      });
    } catch (cause) {
      const retryable = !(cause instanceof ClosedError);
      const outcome = applied === "no" ? "none" : "unknown";
      const error = retryable
        ? new StoreUnavailableError(`${WHAT}: ${cause}`, { outcome, cause })
        : cause;
      return requests.map(() => ({ status: "failed", applied, retryable, error }));
    }
  }

  async #records() {
    this.#checkOpen();
    return new Map((await this.#cell.read()).value.records);
  }

  /**
   * Callers in this process go one after the other: they would only lose the swap to each other.
   * @template T
   * @param {() => Promise<T>} step
   */
  #inTurn(step) {
    const done = this.#turn.then(step);
    this.#turn = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  #checkOpen() {
    if (this.#closed) throw new ClosedError(WHAT);
  }

  /**
   * What people see of a grant: all but its lease id.
   * @param {Key} key
   * @param {LeaseRecord} record
   * @returns {LeaseView}
   */
  #view({ namespace, resource }, record) {
    const { leaseId, holder, token, ttlMs, metadata, ended } = record;
    const nowMs = this.#nowMs();
    const live = rules.isLive(record, nowMs);
    return {
      namespace,
      resource,
      holder,
      token,
      ttlMs,
      metadata,
      grantId: grantIdOf(leaseId),
      state: ended ?? (live ? "live" : "expired"),
      remainingMs: live ? record.expiresAtMs - nowMs : 0,
      // Revoked, but not free yet.
      ...(!live && rules.excludes(record, nowMs) && { freeInMs: record.expiresAtMs - nowMs }),
      grantedAt: textOf(record.grantedAtMs),
      renewedAt: record.renewedAtMs === null ? null : textOf(record.renewedAtMs),
      expiresAt: textOf(record.expiresAtMs),
    };
  }
}

/** @param {Key} key */
function nameOf({ namespace, resource }) {
  return JSON.stringify([namespace, resource]);
}

/**
 * @param {string} name
 * @returns {Key}
 */
function keyOf(name) {
  const [namespace, resource] = JSON.parse(name);
  return { namespace, resource };
}

/**
 * Grants and renewals tell people when they end; the rules leave clocks as text to the store.
 * @param {{ status: string, remainingMs?: number | null }} outcome
 * @param {number} nowMs
 */
function withExpiry(outcome, nowMs) {
  if (outcome.status !== "acquired" && outcome.status !== "renewed") return outcome;
  return { ...outcome, expiresAt: textOf(nowMs + (outcome.remainingMs ?? 0)) };
}

/** @param {number} ms */
function textOf(ms) {
  return new Date(ms).toISOString();
}

/**
 * @param {string} a
 * @param {string} b
 */
function compareBytes(a, b) {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
