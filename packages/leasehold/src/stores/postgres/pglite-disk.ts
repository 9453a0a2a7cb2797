/**
 * Keeps PGlite from filling the disk, and from stopping when other programs fill it.
 *
 * - PostgreSQL leaves checkpoints to a background process, which PGlite does not have: its log would grow for as long
 *   as the database is open. After a checkpoint, PostgreSQL uses the files of the log again.
 * - It aborts when the disk is too full for its log. Below the reserve, only renewals and releases may write: they
 *   change rows in place, and their log fits into the files that exist.
 */
import { statfsSync } from "node:fs";
import type { Clock } from "../../env/index.js";
import { StoreMisconfiguredError, StoreUnavailableError } from "../../lease/index.js";
import type { Session } from "./connection.js";

const MIB = 1_048_576;
/** Four files of the log. */
const RESERVE_BYTES = 64 * MIB;
const CHECKPOINT_AFTER_BYTES = 32 * MIB;
const LOOK_EVERY_MS = 1_000;

/** Keeps fewer files of the log after a checkpoint than the default of 1 GB. */
export const LOG_PARAMS = ["-c", "max_wal_size=96MB"];

const LOG_SINCE_CHECKPOINT = `
  SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::float8 AS bytes
  FROM pg_control_checkpoint()`;

export class Disk {
  readonly #directory: string;
  readonly #clock: Clock;
  #lookedAtMs: number;

  /** @param directory empty: in memory */
  constructor(directory: string, clock: Clock) {
    this.#directory = directory;
    this.#clock = clock;
    this.#lookedAtMs = clock.monotonic();
  }

  get isLow(): boolean {
    return this.#freeBytes() < RESERVE_BYTES;
  }

  /** The free space, for messages. */
  get description(): string {
    if (this.#directory === "") return "it is in memory";
    return `its disk has ${Math.floor(this.#freeBytes() / MIB)} MiB left`;
  }

  /** @throws StoreMisconfiguredError if opening the database could fill the disk */
  checkBeforeOpening(): void {
    if (!this.isLow) return;
    throw new StoreMisconfiguredError(
      `the PGlite directory ${this.#directory} needs ${RESERVE_BYTES / MIB} MiB of free disk space, but ${this.description}: free some, and try again`,
    );
  }

  /** Of a statement that was refused because it would write. */
  refusal(cause: unknown): StoreUnavailableError {
    const has = `PGlite in ${this.#directory} has less than ${RESERVE_BYTES / MIB} MiB of free disk space`;
    return new StoreUnavailableError(
      `${has}: it stores nothing new, and only renews and releases; free disk space`,
      { outcome: "none", cause },
    );
  }

  /** Writes a checkpoint if the log has grown. */
  async limitLog(session: Session): Promise<void> {
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#lookedAtMs < LOOK_EVERY_MS) return;
    this.#lookedAtMs = nowMs;
    const [log] = await session.query<{ bytes: number }>(LOG_SINCE_CHECKPOINT);
    if (log && log.bytes >= CHECKPOINT_AFTER_BYTES) await session.query("CHECKPOINT");
  }

  /** Infinity in memory, and where the file system does not say. */
  #freeBytes(): number {
    if (this.#directory === "") return Infinity;
    const { bavail, bsize, blocks } = statfsSync(this.#directory);
    return blocks === 0 ? Infinity : bavail * bsize;
  }
}
