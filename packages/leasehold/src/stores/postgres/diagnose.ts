/** What in the settings of a server could cost leases that were granted, or their timeliness. */
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
      // PGlite is for development, and has it off always.
      backend.name.includes("PGlite") ? "doubtful" : "wrong",
      "a crash of the machine may lose grants and tokens that were answered: use a PostgreSQL server with fsync = on",
    ),
    judged(
      "synchronous_commit",
      (setting) => setting !== "off",
      "doubtful",
      "a crash may lose the grants of the last moments: set it to on for this role or database",
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
            "waiters ask every half second, as behind PgBouncer in transaction mode: connect past it, or pool sessions, to be woken",
        },
  ];
}
