/** The SQLite that this process has: that of Node from version 22.13 on, else the one inside the package libsql. */
import { propertyOf, reasonOf } from "../../env/index.js";
import { StoreMisconfiguredError } from "../../lease/index.js";
import { driverError } from "../../store-kit/driver.js";

export interface Statement {
  get(...values: readonly Value[]): unknown;
  all(...values: readonly Value[]): unknown[];
  run(...values: readonly Value[]): { readonly changes: number | bigint };
}
export type Value = string | number | null;

/** What the drivers have in common: all of it blocks. */
export interface Database {
  prepare(sql: string): Statement;
  exec(sql: string): unknown;
  close(): unknown;
}

interface NodeSqlite {
  readonly DatabaseSync: new (file: string) => Database;
}

export async function loadSqlite(): Promise<(file: string) => Database> {
  // Node 20 has none, nor a type of it.
  const node = process.getBuiltinModule("node:sqlite") as NodeSqlite | undefined;
  if (node) return (file) => new node.DatabaseSync(file);
  try {
    const { default: Libsql } = await import("libsql");
    return (file) => new Libsql(file) as unknown as Database;
  } catch (error) {
    throw driverError("libsql", error);
  }
}

/** Codes of SQLite, which a driver has as a number or as a text. */
const CODES = ["BUSY", "LOCKED", "CANTOPEN", "NOTADB", "READONLY", "PERM", "CORRUPT"] as const;
export type Code = (typeof CODES)[number];
const NUMBERS = new Map<number, Code>([
  [3, "PERM"],
  [5, "BUSY"],
  [6, "LOCKED"],
  [8, "READONLY"],
  [11, "CORRUPT"],
  [14, "CANTOPEN"],
  [26, "NOTADB"],
]);

/** Null: another one, or no error of SQLite. */
export function codeOf(error: unknown): Code | null {
  // An opening that fails has its number in the message of libsql alone.
  const opening = /local database .*: (\d+)"\)$/s.exec(reasonOf(error))?.[1];
  const number = propertyOf(error, "errcode") ?? (opening && Number(opening));
  if (typeof number === "number") return NUMBERS.get(number & 0xff) ?? null;
  const text = String(propertyOf(error, "code"));
  return CODES.find((code) => text.startsWith(`SQLITE_${code}`)) ?? null;
}

/** Versions 3.7.0 to 3.51.2 lose committed writes in WAL mode, when checkpoints of two connections overlap. */
export function isSafeInWal(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  if (major > 3 || minor > 51) return true;
  if (minor === 51) return patch >= 3;
  return (minor === 50 && patch >= 7) || (minor === 44 && patch >= 6);
}

export function unusable(file: string, problem: string, cause?: unknown): StoreMisconfiguredError {
  return new StoreMisconfiguredError(`SQLite cannot use ${file}: ${problem}`, cause);
}
