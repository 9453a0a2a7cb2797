/**
 * Writes ended grants to a history after the fact: no acquire waits for it.
 *
 *   record  a b c ......... d e      f g h ...          i
 *           └──── 1 s ────┐ └─┴──────┴─┴─┴─┐            └─ 1 s ...
 *   history            [ a b c ]─ fails    [ a b c d ... h ]
 *                               └─ pause ─┘
 *
 * - The recorder keeps grants until they are written, and retries. A history ignores repeated grants.
 * - While the database is unavailable, the recorder keeps at most KEPT grants and drops the oldest.
 * - A killed process loses the grants that it recorded within the last second.
 */

import { Backoff, type Env, type Timer, withTimeout } from "../env/index.js";
import type { LeaseView } from "../lease/index.js";
import type { GrantHistory } from "./grant-history.js";

const WRITE_AFTER_MS = 1_000;
/** The size of a batch: reaching it starts a write at once. */
const BATCH = 500;
const KEPT = 10_000;
const RETRY = { firstMs: 2_000, longestMs: 30_000, jitter: 0 };
/** A bound for stop(): the database may stay unavailable. */
const STOP_MS = 2_000;

/** Reads through it include the grants that were recorded before. */
export interface Recorder extends Pick<GrantHistory, "list" | "find"> {
  /** Adds an ended grant to the next batch. Never waits or throws. */
  readonly record: (grant: LeaseView) => void;
  /** Writes at once; resolves when nothing is left to write, or when that failed. */
  flush(): Promise<void>;
  /** Flushes, for at most 2 s. Each grant that is recorded later is written at once, without retries. */
  stop(): Promise<void>;
}

/** Its timer does not hold the process open. */
export function startRecorder(history: GrantHistory, { clock, logger, random }: Env): Recorder {
  const backoff = new Backoff(random, RETRY);
  let waiting: LeaseView[] = [];
  let sending = 0;
  let timer: Timer | undefined;
  let writing: Promise<void> | undefined;
  let failing = false;
  let dropped = 0;
  let stopped = false;

  const write = async (): Promise<void> => {
    timer?.cancel();
    timer = undefined;
    if (waiting.length > 0) writing ??= writeAll();
    await writing;
  };
  const writeAll = async () => {
    while (waiting.length > 0) {
      const batch = waiting.splice(0, BATCH);
      sending = batch.length;
      try {
        await history.append(batch);
        succeeded();
      } catch (err) {
        waiting = [...batch, ...waiting];
        dropOldest();
        failed(err);
        break;
      }
    }
    sending = 0;
    // In the same turn: what is recorded from now on must set a timer again.
    writing = undefined;
  };
  const succeeded = () => {
    if (dropped > 0) logger.warn({ dropped }, "ended grants are missing in the history");
    else if (failing) logger.info({}, "ended grants are written to the history again");
    failing = false;
    backoff.reset();
    dropped = 0;
  };
  const failed = (err: unknown) => {
    if (!failing) logger.warn({ err }, "could not write ended grants to the history");
    failing = true;
    if (!stopped) writeIn(backoff.nextMs());
  };
  const writeIn = (delayMs: number) => {
    timer ??= clock.timer(delayMs, () => void write(), { background: true });
  };
  const dropOldest = () => {
    const excess = waiting.length - KEPT;
    if (excess <= 0) return;
    waiting.splice(0, excess);
    dropped += excess;
  };

  return {
    record(grant) {
      waiting.push(grant);
      dropOldest();
      // A write that is under way goes on with what came meanwhile.
      if (writing) return;
      if (stopped || (waiting.length >= BATCH && !failing)) void write();
      else writeIn(WRITE_AFTER_MS);
    },
    flush: write,
    list: async (query) => {
      await write();
      return history.list(query);
    },
    find: async (key, grantId) => {
      await write();
      return history.find(key, grantId);
    },
    async stop() {
      stopped = true;
      await withTimeout(clock, STOP_MS, write(), () => {});
      const unwritten = dropped + sending + waiting.length;
      if (unwritten > 0) {
        logger.warn({ dropped: unwritten }, "ended grants may be missing in the history");
      }
    },
  };
}
