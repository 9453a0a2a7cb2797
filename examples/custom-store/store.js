/**
 * A custom lease store over one value that changes by compare-and-swap. Any such value works: a file, an object in a bucket
 * (If-Match), a key with a revision. The store loads keys and saves changes; the package decides.
 */
import { ClosedError, StoreUnavailableError } from "leasehold";
import {
  EMPTY_QUEUE,
  listRecords,
  mayStillSave,
  operationsOn,
  rules,
  viewOf,
} from "leasehold/port";
import { Cell } from "./cell.js";

/**
 * @typedef {import("leasehold/port").LeaseStore} LeaseStore
 * @typedef {import("leasehold/port").LeaseRecord} LeaseRecord
 * @typedef {import("leasehold/port").Key} Key
 * @typedef {{ records: [name: string, record: LeaseRecord][], floor: number }} State the last grant of each key, and the
 *   largest token that was collected
 * @typedef {import("./cell.js").Read<State>} Read
 * @typedef {import("leasehold/port").Engine<Read>} Engine
 */

const WHAT = "the store in this folder";
const nameOf = (/** @type {Key} */ { namespace, resource }) =>
  JSON.stringify([namespace, resource]);
const textOf = (/** @type {number} */ ms) => new Date(ms).toISOString();

/**
 * Leases in a folder, for all processes of one machine.
 * @implements {LeaseStore}
 * @implements {Engine}
 */
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
  #operations = operationsOn(/** @type {Engine} */ (this), { textOf });
  /** @type {Promise<unknown>} */
  #turn = Promise.resolve();
  #closing = new AbortController();

  /**
   * @param {Cell<State>} cell
   * @param {() => number} nowMs
   */
  constructor(cell, nowMs) {
    this.cell = cell;
    this.nowMs = nowMs;
  }

  /**
   * @param {string} folder created if it does not exist
   * @param {() => number} [nowMs] The store's clock. Default: the machine's clock, which all processes share. If an operator
   *   sets it forward, leases end early. Their holders notice, because `checkAlive()` uses the same clock.
   */
  static async open(folder, nowMs = Date.now) {
    const cell = /** @type {Cell<State>} */ (new Cell(folder));
    await cell.open({ records: [], floor: 0 });
    return new FolderStore(cell, nowMs);
  }

  // Callers in this process go one after the other: they would only lose the swap to each other.
  /** @type {LeaseStore["acquire"]} */
  acquire = (...call) => this.#inTurn(() => this.#operations.acquire(...call));
  /** @type {LeaseStore["renew"]} */
  renew = (...call) => this.#inTurn(() => this.#operations.renew(...call));
  /** @type {LeaseStore["release"]} */
  release = (...call) => this.#inTurn(() => this.#operations.release(...call));
  /** @type {LeaseStore["revoke"]} */
  revoke = (...call) => this.#inTurn(() => this.#operations.revoke(...call));

  /** @type {Engine["load"]} The version of each key is that of the whole folder. */
  async load(keys) {
    const version = await this.#read();
    const [records, nowMs] = [new Map(version.value.records), this.nowMs()];
    // By the clock, so that tokens grow even if the folder is deleted.
    const leastToken = Math.max(version.value.floor + 1, nowMs * 1_000);
    const load = (/** @type {Key} */ key) => {
      const record = records.get(nameOf(key)) ?? null;
      return { record, version, isPaused: false, leastToken, queue: EMPTY_QUEUE };
    };
    return { nowMs, keys: keys.map(load) };
  }

  /** @type {Engine["save"]} A pause of the process within the swap is not noticed: a renewal may then revive its own grant. */
  async save(changes) {
    const read = /** @type {Read} */ (changes[0]?.version);
    const records = new Map(read.value.records);
    for (const change of changes) {
      const current = { record: records.get(nameOf(change)) ?? null, tokenFloor: read.value.floor };
      if (!mayStillSave(change, current, this.nowMs())) return changes.map(() => false);
      if (change.record) records.set(nameOf(change), change.record);
    }
    const isSaved = await this.#swap(read, { ...read.value, records: [...records] });
    return changes.map(() => isSaved);
  }

  /** @type {Engine["failed"]} */
  failed(cause) {
    if (cause instanceof ClosedError) {
      return { status: "failed", applied: "no", retryable: false, error: cause };
    }
    const error = new StoreUnavailableError(`${WHAT}: ${cause}`, { outcome: "unknown", cause });
    return { status: "failed", applied: "maybe", retryable: true, error };
  }

  /** @type {LeaseStore["get"]} */
  async get(keys) {
    const records = new Map((await this.#read()).value.records);
    return keys.map((key) => {
      const record = records.get(nameOf(key));
      return record ? viewOf(key, record, this.nowMs(), textOf) : null;
    });
  }

  /** @type {LeaseStore["list"]} */
  async list(query) {
    const { records } = (await this.#read()).value;
    const entries = records.map(([name, record]) => {
      const [namespace, resource] = JSON.parse(name);
      return /** @type {const} */ ([{ namespace, resource }, record]);
    });
    return listRecords(entries, query, this.nowMs(), textOf);
  }

  /** @type {LeaseStore["watch"]} With `watch: "poll"` there is one event. */
  async *watch(_namespace, { signal }) {
    this.#checkOpen();
    const ended = AbortSignal.any([signal, this.#closing.signal]);
    if (ended.aborted) return;
    yield { type: "resync" };
    if (!ended.aborted) await new Promise((end) => ended.addEventListener("abort", end));
  }

  /** @type {LeaseStore["collect"]} */
  async collect(olderThanMs) {
    for (;;) {
      const read = await this.#read();
      const nowMs = this.nowMs();
      const isOld = (/** @type {LeaseRecord} */ record) =>
        !rules.excludes(record, nowMs) && record.expiresAtMs < nowMs - olderThanMs;
      const old = read.value.records.filter(([, record]) => isOld(record));
      if (old.length === 0) return 0;
      const floor = Math.max(read.value.floor, ...old.map(([, { token }]) => token));
      const records = read.value.records.filter((entry) => !old.includes(entry));
      if (await this.#swap(read, { records, floor })) return old.length;
    }
  }

  /** Ends watches and refuses every later call. The folder stays. */
  async close() {
    this.#closing.abort();
    await this.#turn;
  }

  /**
   * @param {Read} read
   * @param {State} value
   * @returns whether it was swapped
   */
  async #swap(read, value) {
    this.#checkOpen();
    const swapped = await this.cell.swap(read, value);
    if (swapped === "unknown") throw new Error("overtaken while it stood still");
    return swapped === "won";
  }

  async #read() {
    this.#checkOpen();
    return this.cell.read();
  }

  #checkOpen() {
    if (this.#closing.signal.aborted) throw new ClosedError(WHAT);
  }

  /**
   * @template T
   * @param {() => Promise<T>} step
   */
  #inTurn(step) {
    const done = this.#turn.then(step);
    this.#turn = done.catch(() => {});
    return done;
  }
}
