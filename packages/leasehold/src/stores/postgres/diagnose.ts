/** Checks server settings that could lose granted leases or delay them. */
import type { Diagnosis } from "../source.js";
import type { Connections } from "./shared.js";

const SETTINGS = `
  SELECT name, setting FROM pg_settings
  WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'default_transaction_isolation',
    'max_connections')`;

export async function diagnosePostgres({
  backend,
  listener,
}: Connections): Promise<readonly Diagnosis[]> {
  const rows = await backend.general.query<{ name: string; setting: string }>(SETTINGS);
  const settings = new Map(rows.map(({ name, setting }) => [name, setting]));
  const value = (name: string) => settings.get(name) ?? "unknown";
  const judged = (
    what: string,
    isFine: (value: string) => boolean,
    verdict: "doubtful" | "wrong",
    remedy: string,
  ): Diagnosis => {
    const found = value(what);
    return isFine(found)
      ? { what, value: found, verdict: "fine", remedy: null }
      : { what, value: found, verdict, remedy };
  };
  return [
    { what: "server_version", value: value("server_version"), verdict: "fine", remedy: null },
    judged(
      "fsync",
      (setting) => setting === "on",
      // PGlite is meant for development, and always has it off.
      backend.name.includes("PGlite") ? "doubtful" : "wrong",
      "a crash of the machine may lose acknowledged grants and tokens: use a PostgreSQL server with fsync = on",
    ),
    judged(
      "synchronous_commit",
      (setting) => setting !== "off",
      "doubtful",
      "a crash may lose the latest grants: set it to on for this role or database",
    ),
    judged(
      "default_transaction_isolation",
      (setting) => /^read (un)?committed$/.test(setting),
      "wrong",
      "ALTER ROLE ... SET default_transaction_isolation = 'read committed'",
    ),
    {
      what: "max_connections",
      value: value("max_connections"),
      verdict: "fine",
      remedy: null,
    },
    listener.mode === "push"
      ? { what: "notifications", value: "push", verdict: "fine", remedy: null }
      : {
          what: "notifications",
          value: "poll",
          verdict: "doubtful",
          remedy:
            "waiters poll every half second instead of being woken, as behind PgBouncer in transaction mode: bypass PgBouncer, or use session pooling",
        },
  ];
}
