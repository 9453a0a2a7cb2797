/** Options of serve about the audit: signed checkpoints in a file, to keep them elsewhere; denials and reads. */

import { appendFile } from "node:fs/promises";
import { type Command, Option } from "commander";
import type { Env } from "leasehold";
import { type AuditLog, type Checkpoint, sleep, verifyAudit } from "leasehold/internal";
import { reasonOf } from "leasehold/internal/describe";
import { type SignedCheckpoint, type Signer, signed, signerOf } from "./checkpoints.js";
import { UsageError } from "./failures.js";
import { notBlank, positiveDuration } from "./options.js";
import { write } from "./output.js";

/** Also which requests the audit has beside actions. */
export interface AuditFlags {
  readonly auditDenials?: boolean;
  readonly auditReads?: boolean;
  readonly auditCheckpointFile?: string;
  readonly auditCheckpointEvery?: number;
  readonly auditSignKey?: string;
  readonly auditSecretFile?: string;
}

const EVERY_MS = 15 * 60_000;

export function withAudit(command: Command): Command {
  return command
    .option(
      "--audit-denials",
      "enter refused requests of known callers in the audit, at most 10 of each in a minute",
    )
    .option(
      "--audit-reads",
      "enter reads of the audit and of the keys in the audit, at most 10 of each caller in a minute",
    )
    .addOption(
      new Option(
        "--audit-checkpoint-file <file>",
        "add signed checkpoints of the audit to this file; - is stdout",
      )
        .env("LEASEHOLD_AUDIT_CHECKPOINT_FILE")
        .argParser(notBlank),
    )
    .addOption(
      new Option(
        "--audit-checkpoint-every <duration>",
        "how often to add one (default: 15m)",
      ).argParser(positiveDuration),
    )
    .addOption(
      new Option(
        "--audit-sign-key <file>",
        "private key that signs checkpoints (Ed25519, PEM, without a passphrase)",
      )
        .env("LEASEHOLD_AUDIT_SIGN_KEY")
        .argParser(notBlank),
    )
    .addOption(
      new Option(
        "--audit-secret-file <file>",
        "file with a secret of 32 characters or more that signs checkpoints (HMAC-SHA-256)",
      )
        .env("LEASEHOLD_AUDIT_SECRET_FILE")
        .argParser(notBlank),
    );
}

/** The audit of a control store. */
type Audited = { readonly audit: Pick<AuditLog, "read" | "head"> } | undefined;

export interface Checkpoints {
  /** @throws UsageError if checkpoints are to be written and there is no audit */
  check(control: Audited): void;
  /** Writes checkpoints until it is closed. */
  start(control: Audited, env: Pick<Env, "clock" | "logger">): { close(): Promise<void> };
}

/**
 * What the options say of checkpoints. Reads the key, and tries the file.
 * @throws UsageError
 */
export async function checkpointsOf(flags: AuditFlags): Promise<Checkpoints> {
  const { auditCheckpointFile: file, auditCheckpointEvery, auditSignKey, auditSecretFile } = flags;
  const names = { key: "--audit-sign-key", secret: "--audit-secret-file" };
  if (file === undefined) {
    for (const [name, given] of [
      ["--audit-checkpoint-every", auditCheckpointEvery],
      [names.key, auditSignKey],
      [names.secret, auditSecretFile],
    ]) {
      if (given !== undefined) throw new UsageError(`${name} needs --audit-checkpoint-file`);
    }
    return { check: () => {}, start: () => ({ close: async () => {} }) };
  }
  const signer = await signerOf({ key: auditSignKey, secret: auditSecretFile }, names);
  if (!signer) {
    throw new UsageError(`--audit-checkpoint-file needs ${names.key} or ${names.secret}`);
  }
  const add = adding(file);
  await add("").catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `--audit-checkpoint-file: cannot write ${file} (${error.code ?? error.message})`,
    );
  });
  const everyMs = auditCheckpointEvery ?? EVERY_MS;
  return {
    check: (control) => {
      if (control) return;
      throw new UsageError(
        "--audit-checkpoint-file: this store has no audit: name a database that has one (PostgreSQL, PGlite) with --control",
      );
    },
    start: (control, env) => {
      const stop = new AbortController();
      const writing = control
        ? writeCheckpoints(control.audit, { ...env, signer, everyMs, add, signal: stop.signal })
        : Promise.resolve();
      return {
        close: () => {
          stop.abort();
          return writing;
        },
      };
    },
  };
}

/** The file may be rotated in between, so it is opened for each line. A new one is for this user alone. */
function adding(file: string): (text: string) => Promise<void> {
  return file === "-" ? write : (text) => appendFile(file, text, { mode: 0o600 });
}

interface Writing extends Pick<Env, "clock" | "logger"> {
  readonly signer: Signer;
  readonly everyMs: number;
  readonly add: (line: string) => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * Adds a checkpoint now and after each interval. From the second on, the chain must contain the one before, and the
 * entries since then must be whole: otherwise none is signed. After a failure, it waits for the next interval.
 * @internal for tests
 */
export async function writeCheckpoints(
  audit: Pick<AuditLog, "read" | "head">,
  { clock, logger, signer, everyMs, add, signal }: Writing,
): Promise<void> {
  const { algorithm, keyId } = signer;
  logger.info({ event: "audit_checkpoints", algorithm, keyId }, "writes checkpoints of the audit");
  for (let last: Checkpoint | null = null; !signal.aborted; ) {
    try {
      const end: Checkpoint | null = await endAfter(audit, last, logger);
      if (end) {
        const line: SignedCheckpoint = signed(end, new Date(clock.wall()), signer);
        await add(`${JSON.stringify(line)}\n`);
        last = end;
      }
    } catch (error) {
      const message = `no checkpoint of the audit was written: ${reasonOf(error)}`;
      logger.error({ event: "checkpoint_failed", err: error }, message);
    }
    await sleep(clock, everyMs, { signal, background: true }).catch(() => {});
  }
}

/** The end of the chain; null if it no longer continues `last`. */
async function endAfter(
  audit: Pick<AuditLog, "read" | "head">,
  last: Checkpoint | null,
  logger: Env["logger"],
): Promise<Checkpoint | null> {
  if (!last) return audit.head();
  const verified = await verifyAudit(audit, last, "checkpoint");
  if (verified.ok) return verified.head;
  const { seq, problem } = verified;
  const message = `the audit was changed, and no checkpoint is signed: ${problem}`;
  logger.error({ event: "audit_broken", seq }, message);
  return null;
}
