/** The directories of embedded databases (PGlite). */
import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { UsageError } from "./failures.js";
import type { Notify } from "./notices.js";

interface Urls {
  readonly store: string;
  readonly control: string | undefined;
}

/**
 * Checks that the directories have databases. PGlite would create them, and a command that reads would report
 * of a mistyped directory that all is well.
 * @param notify of commands that may create a database; called before they do
 * @throws UsageError without `notify`, for a directory that is missing or empty
 */
export function checkDirectories({ store, control }: Urls, notify?: Notify): void {
  for (const url of new Set([store, control ?? store])) {
    const directory = directoryOf(url);
    if (directory === undefined || !isMissingOrEmpty(directory)) continue;
    if (!notify) {
      throw new UsageError(
        `there is no PGlite database in ${directory}: check the path, or create the database with "leasehold migrate --store ${url}"`,
      );
    }
    notify({ event: "creating", directory, message: `creating a PGlite database in ${directory}` });
  }
}

/** Where an embedded database is on the disk: its URL may be relative to the working directory. */
export function directoryOf(url: string): string | undefined {
  const [, directory = ""] = /^pglite:([^?]*)/i.exec(url) ?? [];
  // The store refuses //, other schemes, ~ and variables, and says what to write instead.
  return directory === "" || /^(\/\/|\w+:|~|\$)/.test(directory) ? undefined : resolve(directory);
}

function isMissingOrEmpty(directory: string): boolean {
  try {
    return readdirSync(directory).length === 0;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}
