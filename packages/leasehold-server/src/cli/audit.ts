/** Lists, verifies and exports the audit log of operator actions. */

import { lstat, open, rename, rm } from "node:fs/promises";
import { type Command, InvalidArgumentError } from "commander";
import {
  ACTION_ALIASES,
  type AuditEntry,
  type AuditLog,
  CHAIN_BEGIN,
  type ChainEnd,
  claimedActorOf,
  verifyAudit,
} from "leasehold/internal";
import { AUDITED_ACTIONS } from "../generator/shared.js";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import { readText } from "./files.js";
import {
  controlWhereOf,
  integer,
  refuseNamespaceWithAll,
  repeatable,
  tenantOf,
  withDatabase,
  withStores,
} from "./options.js";
import { print, write } from "./output.js";
import { allOf, withControl, withControlOrServer } from "./stores.js";
import { plainTable } from "./table.js";
import { safeJson, sayMore, shown } from "./terminal.js";

/** Entries read at once. */
const PAGE = 1_000;

export function addAudit(audit: Command): void {
  audit.addHelpText("after", HELP);
  addList(audit);
  addVerify(audit);
  addExport(audit);
}

interface ListOptions {
  readonly namespace: string;
  readonly all?: boolean;
  readonly target?: string;
  readonly action: readonly string[];
  readonly limit: number;
  readonly json?: boolean;
}

function addList(audit: Command): void {
  withStores(audit.command("list"))
    .description("list entries, newest first")
    .option("--all", "list all tenants, instead of one")
    .option("--target <name>", "list only entries about this resource, task or key")
    .option(
      "--action <name>",
      "list only this action, such as lease.revoke, or FORCE_UNLOCK, its alias; repeatable",
      repeatable(actionOf),
      [] as readonly string[],
    )
    .option("--limit <n>", "maximum number of results", integer(1, 10_000), 20)
    .option("--json", "print JSON")
    .action(async (options: ListOptions, command: Command) => {
      refuseNamespaceWithAll(command);
      const { all, target, action, limit, json } = options;
      const query = {
        ...(target !== undefined && { target }),
        ...(action.length > 0 && { actions: action }),
      };
      const entries = await withControlOrServer(
        controlWhereOf(command),
        ({ audit: log }, served) => {
          const namespace = all ? null : tenantOf(command, served);
          // One more than is shown, to know whether there are more.
          return allOf((part) => log.list({ namespace, ...query, ...part }), limit + 1);
        },
      );
      const items = entries.slice(0, limit).map((entry) => ({
        ...entry,
        claimedActor: claimedActorOf(entry.details),
      }));
      await print(json, items.map(withParsedDetails), () => tableOf(items));
      if (entries.length > limit) sayMore(limit, "entry", "entries");
    });
}

function actionOf(text: string): string {
  const name = ACTION_ALIASES[text] ?? text;
  if (AUDITED_ACTIONS.includes(name)) return name;
  const known = [...AUDITED_ACTIONS, ...Object.keys(ACTION_ALIASES)];
  throw new InvalidArgumentError(`It must be one of ${known.join(", ")}.`);
}

interface VerifyOptions {
  readonly export?: string;
  readonly fromExport?: boolean;
  readonly json?: boolean;
}

function addVerify(audit: Command): void {
  withDatabase(audit.command("verify"))
    .description("verify the hash chain of all entries")
    .option("--export <file>", "earlier export, kept elsewhere, that the chain must still contain")
    .option("--from-export", "read only the entries behind the export")
    .option("--json", "print JSON")
    .addHelpText("after", VERIFY_HELP)
    .action(async (options: VerifyOptions, command: Command) => {
      const { export: file, fromExport, json } = options;
      if (fromExport && file === undefined) {
        throw new UsageError("--from-export needs an --export <file>");
      }
      const known = file === undefined ? CHAIN_BEGIN : await readEnd(file);
      const from = fromExport ? "export" : "start";
      const verified = await withControlOrServer(controlWhereOf(command), ({ audit: log }) =>
        "verify" in log ? log.verify(known, from) : verifyAudit(log, known, from),
      );
      await print(json, verified, () =>
        verified.ok && verified.entries === 0
          ? "no entries: is this the right store?"
          : verified.ok
            ? `entries: ${verified.entries}, ${fromExport ? `those after ${known.seq}` : "all"} unchanged; the last hash is ${verified.head.hash}`
            : `BROKEN at entry ${verified.seq}: ${verified.problem}`,
      );
      if (!verified.ok) throw new Exit(EXIT.failed);
    });
}

/**
 * The last line of an export, or `{"seq": 12, "hash": "..."}` alone. An entry has these two as well: an export that ends
 * with one was cut off, and would prove less than it seems to.
 */
async function readEnd(file: string): Promise<ChainEnd> {
  const text = await readText(file, "--export");
  try {
    const line = JSON.parse(text.trimEnd().split("\n").at(-1) ?? "") as {
      readonly end?: Partial<ChainEnd>;
    } & Partial<ChainEnd>;
    const { seq, hash, ...others } = line.end ?? line;
    if (
      Number.isSafeInteger(seq) &&
      /^[0-9a-f]{64}$/.test(hash ?? "") &&
      Object.keys(others).length === 0
    ) {
      return { seq: seq as number, hash: hash as string };
    }
  } catch {
    // Reported below.
  }
  throw new UsageError(
    `--export: ${file} does not end with the end of the chain: an export without its last line was cut off`,
  );
}

function addExport(audit: Command): void {
  withDatabase(audit.command("export"))
    .description(
      "export all entries of all tenants as JSON lines; the last line is the end of the chain",
    )
    .option("--out <file>", "write to this file (default: stdout)")
    .option("--json", "accepted for symmetry: exports are always JSON")
    .addHelpText("after", EXPORT_HELP)
    .action(async ({ out }: { out?: string }, command: Command) => {
      const exported = (write: Write) =>
        withControl(controlWhereOf(command), ({ audit: log }) => exportAll(log, write));
      await (out === undefined ? exported(toStdout) : toFile(out, exported));
    });
}

export type Write = (lines: readonly object[]) => Promise<unknown>;

const toStdout: Write = (lines) => write(textOf(lines));

/** Replaces an earlier export only when the new one is complete. */
async function toFile(path: string, exported: (write: Write) => Promise<void>): Promise<void> {
  // The rename would replace a link, a pipe or a device, whose readers would get nothing.
  const earlier = await lstat(path).catch(() => null);
  if (earlier && !earlier.isFile()) {
    throw new UsageError(`--out: ${path} is no regular file: name one, or write to stdout`);
  }
  const part = `${path}.part`;
  // A new export is for this user alone. Another's link at this path would choose the file that is written.
  const mode = (earlier?.mode ?? 0o600) & 0o777;
  const create = () => rm(part, { force: true }).then(() => open(part, "wx", mode));
  const file = await create().catch((error: Error) => {
    throw new UsageError(`--out: ${error.message}`);
  });
  try {
    try {
      await exported((lines) => file.appendFile(textOf(lines)));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(part, path);
  } catch (error) {
    // It would look like an export that still runs.
    await rm(part, { force: true });
    throw error;
  }
}

function textOf(lines: readonly object[]): string {
  return lines.map((line) => `${safeJson(line)}\n`).join("");
}

export async function exportAll(log: Pick<AuditLog, "read">, write: Write): Promise<void> {
  let end = CHAIN_BEGIN;
  for (;;) {
    const page = await log.read(end.seq, PAGE);
    const last = page.at(-1);
    if (!last) break;
    await write(page);
    end = { seq: last.seq, hash: last.hash };
  }
  await write([{ end }]);
}

type Shown = AuditEntry & { readonly claimedActor: string | null };

/** The store keeps details as text, because the hash covers every character of it. */
function withParsedDetails(entry: Shown): object {
  return { ...entry, details: parsedOrText(entry.details) };
}

/** The table may have been edited by hand. */
function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function tableOf(entries: readonly Shown[]): string {
  if (entries.length === 0) return "no entries";
  const table = plainTable([
    "seq",
    "at",
    "actor",
    "action",
    "target",
    "phase",
    "reason",
    "details",
  ]);
  for (const { seq, at, actor, claimedActor, action, target, phase, reason, details } of entries) {
    const by = claimedActor === null ? actor : `${actor}, claims ${claimedActor}`;
    const texts = [shown(reason ?? ""), shown(details)];
    table.push([seq, at, shown(by), shown(action), safeJson(target), phase, ...texts]);
  }
  return table.toString();
}

const HELP = `
Each entry contains the hash of the previous one, so a changed, deleted, inserted or reordered entry breaks
the chain. Only an earlier export reveals that the end was cut off or the whole chain rewritten. Keep exports
where users with write access to the database cannot change them. On an http:// store, list and verify ask the
server with your key; an export reads the database.

The actor is what the key proves. A name that the caller gives itself, with --actor over HTTP, is shown as a
claim beside it.

Examples:
  leasehold audit list --target deploy/web
  leasehold audit export --out audit-2030-01-31.jsonl --control postgres://localhost/app
  leasehold audit verify --export audit-2030-01-31.jsonl --control postgres://localhost/app`;

const VERIFY_HELP = `
Exit codes: 0 the chain is intact; 1 it is broken, and the output says where.

A server verifies some hundred thousand entries within one request. For a longer chain, give it the last
export with --from-export, or ask the database. Of the export, the last line is enough.

Example:
  leasehold audit verify --export /mnt/elsewhere/audit.jsonl --json`;

const EXPORT_HELP = `
Example:
  leasehold audit export | tee audit.jsonl | tail -1 > end.json`;
