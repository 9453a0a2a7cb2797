/**
 * Entries of the audit about requests that change nothing: refused ones, and reads of the audit and of the keys.
 *
 * A caller can send as many as it likes, so entries are bounded. In the minute that begins with the first of them:
 *
 *   of one tenant                100
 *     of one actor and action     10 of those
 *
 * At its end, an entry of the actor `server` says how many were left out. Entries are written after the answer, in
 * batches, so that a slow store delays no request.
 */
import type { Env } from "leasehold";
import { type Control, withTimeout } from "leasehold/internal";
import { ProblemError } from "../problems.js";
import { type Answered, loggedPath } from "../request-log.js";

const PERIOD_MS = 60_000;
const MOST_OF_TENANT = 100;
const MOST_OF_ONE = 10;
/** Entries that wait for the store. */
const MOST_WAITING = 1_000;
const BATCH = 100;
const CLOSE_MS = 2_000;

type NewEntry = Parameters<Control["audit"]["append"]>[0][number];

type Action = "access.deny" | "access.read";

/** They show who did what, and who may. Paths below the base path. */
const READS = new Set(["/v1/audit", "/v1/audit/verify", "/v1/keys"]);

export interface AccessAuditOptions {
  readonly denials: boolean;
  readonly reads: boolean;
}

export class AccessAudit {
  readonly #log: Pick<Control["audit"], "append">;
  readonly #env: Pick<Env, "clock" | "logger">;
  readonly #options: AccessAuditOptions;
  /** By tenant. */
  readonly #periods = new Map<string, Period>();
  #waiting: NewEntry[] = [];
  #writing: Promise<void> | undefined;

  constructor(
    { audit }: { readonly audit: Pick<Control["audit"], "append"> },
    options: AccessAuditOptions,
    env: Pick<Env, "clock" | "logger">,
  ) {
    this.#log = audit;
    this.#options = options;
    this.#env = env;
  }

  /** Enters the request if it is one of those that the options name. */
  note(answered: Answered): void {
    const { method, path, status, requestId, error } = answered;
    const denied = this.#options.denials ? deniedOf(answered) : undefined;
    const reader = this.#options.reads && this.#isRead(answered) ? answered.caller : undefined;
    const by = denied ?? reader;
    if (!by) return;
    const { namespace, actor } = by;
    const action = denied ? "access.deny" : "access.read";
    if (!this.#periodOf(namespace).admits(actor, action)) return;
    const code = error instanceof ProblemError ? { code: error.code } : {};
    const target = `${method} ${loggedPath(path)}`;
    this.#add({ namespace, actor, action, target, details: { status, ...code, requestId } });
  }

  /** Ends the periods, and waits a moment for what is not written yet. */
  async close(): Promise<void> {
    for (const period of this.#periods.values()) period.end();
    const { clock } = this.#env;
    if (this.#writing) await withTimeout(clock, CLOSE_MS, this.#writing, () => {});
  }

  #isRead({ method, path, status }: Answered): boolean {
    if (status !== 200 || (method !== "GET" && method !== "HEAD")) return false;
    return READS.has(path);
  }

  #periodOf(namespace: string): Period {
    const known = this.#periods.get(namespace);
    if (known) return known;
    const period = new Period(this.#env.clock, (leftOut) => {
      this.#periods.delete(namespace);
      for (const [action, count] of leftOut) {
        this.#add({ namespace, actor: "server", action, target: "", details: { leftOut: count } });
      }
    });
    this.#periods.set(namespace, period);
    return period;
  }

  #add({
    details,
    ...entry
  }: Omit<NewEntry, "reason" | "phase" | "details"> & { details: object }) {
    if (this.#waiting.length === MOST_WAITING) {
      this.#fail(1, new Error("the store is too slow"));
      return;
    }
    const all = {
      ...entry,
      reason: null,
      phase: "done",
      details: JSON.stringify(details),
    } as const;
    this.#waiting.push(all);
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      await this.#log.append(batch).catch((error: unknown) => this.#fail(batch.length, error));
    }
  }

  #fail(lost: number, err: unknown): void {
    const message = "entries about denials and reads are missing in the audit";
    this.#env.logger.error({ event: "audit_entries_lost", lost, err }, message);
  }
}

/** The known caller that was refused: its role or prefixes do not suffice, or its key has ended. */
function deniedOf({
  status,
  caller,
  error,
}: Answered): Pick<Denied, "namespace" | "actor"> | undefined {
  if (status === 403) return caller?.keyId ? caller : undefined;
  return status === 401 && error instanceof ProblemError ? error.init.denied : undefined;
}

interface Denied {
  readonly namespace: string;
  readonly actor: string;
}

/** The entries of one tenant in the minute that begins with the first of them. */
class Period {
  readonly #counts = new Map<string, number>();
  readonly #leftOut = new Map<Action, number>();
  readonly #cancel: () => void;
  readonly #onEnd: (leftOut: ReadonlyMap<Action, number>) => void;
  #admitted = 0;

  constructor(clock: Env["clock"], onEnd: (leftOut: ReadonlyMap<Action, number>) => void) {
    this.#onEnd = onEnd;
    const timer = clock.timer(PERIOD_MS, () => onEnd(this.#leftOut), { background: true });
    this.#cancel = () => timer.cancel();
  }

  admits(actor: string, action: Action): boolean {
    const kind = `${action} ${actor}`;
    const before = this.#counts.get(kind) ?? 0;
    if (before >= MOST_OF_ONE || this.#admitted >= MOST_OF_TENANT) {
      this.#leftOut.set(action, (this.#leftOut.get(action) ?? 0) + 1);
      return false;
    }
    this.#counts.set(kind, before + 1);
    this.#admitted += 1;
    return true;
  }

  end(): void {
    this.#cancel();
    this.#onEnd(this.#leftOut);
  }
}
