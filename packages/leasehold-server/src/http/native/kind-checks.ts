/**
 * Checks the data of new tasks against the published schemas of their kinds.
 *
 *   tasks ──▶ schemas of their kinds and versions ──▶ check each ──▶ all match: they are enqueued
 *               │ kept for a second, then read again      └─▶ INVALID_REQUEST for all, naming each member
 *               └─ none is published: nothing to check
 *
 * The schemas are those of tenants. The validator interprets them and generates no code, but a pattern may backtrack for
 * years, and references may multiply. So a check is ended after a time, and a tenant whose checks take long must wait: its
 * share of the thread is bounded, whatever it has published.
 */
import type { Env } from "leasehold";
import type { Json, KindKey, KindStore } from "leasehold/internal";
import { FIRST_VERSION, loadJsonSchemas, nextTurn } from "leasehold/internal";
import type { FieldError } from "leasehold/internal/wire";
import type { RunWithin } from "../limits/bounded-time.js";
import type { ThreadShare } from "../limits/thread-share.js";
import { invalid } from "../problems.js";

/** A schema published anew is enforced by every server within this time. */
const KEPT_MS = 1_000;
/** What all kept schemas may have, in characters of JSON. */
const KEPT_LENGTH = 16 * 1024 * 1024;
/** What an entry without a schema counts. */
const ENTRY_LENGTH = 200;

/** A check that takes longer is ended. */
const LONGEST_MS = 50;
/** Other requests wait at most this long for those of one. */
const SLICE_MS = 5;
/** What a check counts that was ended: the next ones wait ten seconds. */
const ENDED_MS = 1_000;

/** A task that is to be enqueued. */
export interface Checked {
  readonly kind: string;
  readonly version?: number | undefined;
  readonly data: Json;
  /** Where the data stands in the request, such as `3.task_data`. */
  readonly path: string;
}

type Check = (data: Json) => { readonly path: string; readonly problem: string } | null;
interface Kept {
  readonly atMs: number;
  readonly check: Promise<Check | null>;
  length: number;
}

export class KindChecks {
  readonly #kinds: Pick<KindStore, "schemas">;
  readonly #runWithin: RunWithin;
  readonly #clock: Env["clock"];
  readonly #telemetry: Env["telemetry"];
  /** By key, the oldest first. */
  readonly #kept = new Map<string, Kept>();
  #length = 0;
  readonly #share: ThreadShare;

  constructor(
    kinds: Pick<KindStore, "schemas">,
    runWithin: RunWithin,
    share: ThreadShare,
    { clock, telemetry }: Pick<Env, "clock" | "telemetry">,
  ) {
    [this.#kinds, this.#runWithin, this.#share] = [kinds, runWithin, share];
    [this.#clock, this.#telemetry] = [clock, telemetry];
  }

  /**
   * @param read wraps a read of the store
   * @throws INVALID_REQUEST if the data of a task does not match; TOO_MANY_REQUESTS; as `read`
   */
  async check(
    namespace: string,
    tasks: readonly Checked[],
    read: <T>(call: () => Promise<T>) => Promise<T>,
  ): Promise<void> {
    const keyed = tasks.map(({ kind, version = FIRST_VERSION, ...task }) => ({
      ...task,
      key: { namespace, kind, version },
    }));
    const checks = this.#checksOf(
      keyed.map(({ key }) => key),
      read,
    );
    const wanted: { readonly check: Check; readonly data: Json; readonly path: string }[] = [];
    for (const { key, data, path } of keyed) {
      const check = await checks.get(nameOf(key));
      if (check) wanted.push({ check, data, path });
    }
    if (wanted.length > 0) await this.#run(namespace, wanted);
  }

  async #run(
    namespace: string,
    wanted: readonly { readonly check: Check; readonly data: Json; readonly path: string }[],
  ): Promise<void> {
    const errors: FieldError[] = [];
    let ended: number | undefined;
    for (let next = 0; next < wanted.length; ) {
      this.#share.check(namespace, "checking data of this tenant against its published schemas");
      const beginMs = this.#clock.monotonic();
      const isDone = this.#runWithin(LONGEST_MS, () => {
        while (next < wanted.length && this.#clock.monotonic() - beginMs < SLICE_MS) {
          const { check, data, path } = wanted[next] as (typeof wanted)[number];
          const found = check(data);
          if (found) errors.push({ ...found, path: [path, found.path].filter(Boolean).join(".") });
          next += 1;
        }
      });
      // A machine that was suspended ends the check of any data: the second time counts.
      const isTooLong = !isDone && ended === next;
      this.#share.take(namespace, isTooLong ? ENDED_MS : this.#clock.monotonic() - beginMs);
      if (!isDone) ended = next;
      if (isTooLong) {
        const { path } = wanted[next] as (typeof wanted)[number];
        const problem = `cannot be checked against the schema of its kind within ${LONGEST_MS} ms: make the data smaller, or the schema simpler`;
        throw invalid([{ path, problem }]);
      }
      if (next < wanted.length) await nextTurn();
    }
    if (errors.length === 0) return;
    this.#telemetry?.count("leasehold.task.invalid", {}, errors.length);
    throw invalid(errors);
  }

  /** Starts to read what is not kept. */
  #checksOf(
    keys: readonly KindKey[],
    read: <T>(call: () => Promise<T>) => Promise<T>,
  ): Map<string, Promise<Check | null>> {
    const nowMs = this.#clock.monotonic();
    const checks = new Map<string, Promise<Check | null>>();
    const missing = new Map<string, KindKey>();
    for (const key of keys) {
      const name = nameOf(key);
      const kept = this.#kept.get(name);
      if (kept && nowMs - kept.atMs < KEPT_MS) checks.set(name, kept.check);
      else missing.set(name, key);
    }
    if (missing.size === 0) return checks;
    const wanted = [...missing.values()];
    const reading = read(() => this.#kinds.schemas(wanted));
    for (const [at, name] of [...missing.keys()].entries()) {
      const kept: Kept = {
        atMs: nowMs,
        length: ENTRY_LENGTH,
        check: reading.then(async (schemas) => {
          const schema = schemas[at] ?? null;
          if (schema === null) return null;
          this.#grow(name, kept, schema.length);
          return (await loadJsonSchemas()).compileSchema(schema);
        }),
      };
      this.#keep(name, kept);
      kept.check.catch(() => this.#drop(name, kept));
      checks.set(name, kept.check);
    }
    return checks;
  }

  #keep(name: string, kept: Kept): void {
    this.#drop(name, this.#kept.get(name));
    this.#kept.set(name, kept);
    this.#grow(name, kept, 0, kept.length);
  }

  #grow(name: string, kept: Kept, more: number, added = more): void {
    if (this.#kept.get(name) !== kept) return;
    kept.length += more;
    this.#length += added;
    for (const [oldest, entry] of this.#kept) {
      if (this.#length <= KEPT_LENGTH) break;
      this.#drop(oldest, entry);
    }
  }

  #drop(name: string, kept: Kept | undefined): void {
    if (!kept || this.#kept.get(name) !== kept) return;
    this.#kept.delete(name);
    this.#length -= kept.length;
  }
}

function nameOf({ namespace, kind, version }: KindKey): string {
  return JSON.stringify([namespace, kind, version]);
}
