/**
 * Where tests keep the data of their servers. Most of a run waits for servers that sync small writes to the disk; what
 * outlives a killed process does so in memory as well, and no test cuts the power.
 */
import { statfsSync } from "node:fs";
import { tmpdir } from "node:os";

/** A run of all tests leaves less than half of it. */
const ENOUGH_BYTES = 6 * 2 ** 30;
/** Of `statfs`, on Linux. */
const TMPFS = 0x01021994;

export function temporaryFolder(): string {
  const inMemory = "/dev/shm";
  if (process.env["TMPDIR"] !== undefined || process.platform !== "linux") return tmpdir();
  try {
    const { type, bavail, bsize } = statfsSync(inMemory);
    return type === TMPFS && bavail * bsize >= ENOUGH_BYTES ? inMemory : tmpdir();
  } catch {
    return tmpdir();
  }
}
