/** What operators do, always with a name and a reason: revoke, pause and resume. */
import { userInfo } from "node:os";
import { type Command, Option } from "commander";
import type { LeaseStores } from "leasehold";
import { LeaseLostError } from "leasehold";
import type { RevokeOutcome, RevokeRequest } from "leasehold/internal";
import {
  type Act,
  clearPause,
  formatDuration,
  type Operator,
  type Pause,
  type PauseKey,
  setPause,
} from "leasehold/internal";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import { integer, namespaceOption, whereOf, withStores } from "./options.js";
import { print } from "./output.js";
import { openLeasesAndControl } from "./stores.js";
import { plainTable } from "./table.js";

export interface ActOptions {
  readonly actor: string;
  readonly reason: string;
  readonly namespace: string;
  readonly json?: boolean;
}

/** Adds what every act needs: who, and why. */
export function withReason(command: Command, { needsReason = true } = {}): Command {
  const reason = new Option("--reason <text>", "kept in the audit").makeOptionMandatory(
    needsReason,
  );
  const actor = new Option("--actor <name>", "who, for the audit; a server takes the key's");
  return command
    .addOption(reason)
    .addOption(actor.default(`cli:${userInfo().username}`, "cli: and your name"));
}

/** The same, and where, and for whom. */
export function withAct(command: Command, options?: { needsReason?: boolean }): Command {
  return withReason(withStores(command), options)
    .addOption(namespaceOption())
    .option("--json", "for machines");
}

/** @throws UsageError where nobody would keep the audit */
export function operatorOf({ control, operator }: LeaseStores): Operator {
  const found = control ?? operator;
  if (found) return found;
  throw new UsageError(
    "this store keeps no audit, and nothing is done without an entry: name a database by --control",
  );
}

export function actOf(
  { actor, reason, namespace }: ActOptions,
  action: string,
  target: string,
): Act {
  return { namespace, actor, action, target, reason };
}

interface RevokeOptions extends ActOptions {
  readonly expectedToken?: number;
  readonly at: "expiry" | "now";
}

export function addRevoke(program: Command): void {
  withAct(program.command("revoke"))
    .description("end somebody's lease, as an operator")
    .argument("<resource>", "whose lease shall end")
    .addOption(
      new Option("--at <when>", "expiry: free when its time has passed; now: free at once")
        .choices(["expiry", "now"])
        .default("expiry"),
    )
    .option(
      "--expected-token <n>",
      "only the grant of this token",
      integer(1, Number.MAX_SAFE_INTEGER),
    )
    .addHelpText("after", REVOKE_HELP)
    .action(async (resource: string, options: RevokeOptions, command: Command) => {
      const stores = await openLeasesAndControl(whereOf(command));
      try {
        const outcome = await revoke(operatorOf(stores), resource, options);
        print(options.json, outcome, () => sayRevoked(resource, outcome));
        if (outcome.status !== "revoked") throw new Exit(EXIT.leaseLost);
      } finally {
        await stores.close();
      }
    });
}

async function revoke(
  operator: Operator,
  resource: string,
  options: RevokeOptions,
): Promise<Exclude<RevokeOutcome, { status: "failed" }>> {
  const { namespace, expectedToken, at } = options;
  const request: RevokeRequest = {
    namespace,
    resource,
    free: at === "now" ? "now" : "atExpiry",
    ...(expectedToken !== undefined && { expectedToken }),
  };
  const outcome = await operator.perform(
    actOf(options, "lease.revoke", resource),
    async ({ leases }) => {
      const [value] = await leases.revoke([request]);
      if (!value) throw new LeaseLostError(resource, "inconsistent");
      const { status } = value;
      const token = value.status === "revoked" ? value.token : (expectedToken ?? null);
      return { value, details: { status, token, free: request.free } };
    },
  );
  if (outcome.status === "failed") throw outcome.error;
  return outcome;
}

function sayRevoked(resource: string, outcome: Awaited<ReturnType<typeof revoke>>): string {
  switch (outcome.status) {
    case "revoked": {
      const { token, freeInMs } = outcome;
      const free = freeInMs === 0 ? "free now" : `free in ${formatDuration(freeInMs)}`;
      return `revoked ${resource}, token ${token}: ${free}`;
    }
    case "notHeld":
      return `nobody holds ${resource}: nothing was done`;
    case "otherToken":
      return `${resource} is held under another token: nothing was done`;
  }
}

interface PauseOptions extends ActOptions {
  readonly prefix?: string;
  readonly queue?: string;
  readonly list?: boolean;
}

export function addPause(program: Command): void {
  withWhat(withAct(program.command("pause"), { needsReason: false }))
    .description("grant a resource, what is below a prefix, or a queue to nobody from now on")
    .option("--list", "show what is paused, and change nothing")
    .addHelpText("after", PAUSE_HELP)
    .action(async (resource: string | undefined, options: PauseOptions, command: Command) => {
      if (options.list) await listPauses(options, command);
      else await pauseWhat(keyOf(resource, options), options, command);
    });
}

async function listPauses({ namespace, json }: PauseOptions, command: Command): Promise<void> {
  const stores = await openLeasesAndControl(whereOf(command));
  try {
    const pauses = await operatorOf(stores).pauses.list(namespace);
    print(json, pauses, () => tableOf(pauses));
  } finally {
    await stores.close();
  }
}

export async function pauseWhat(
  key: PauseKey,
  options: ActOptions,
  command: Command,
): Promise<void> {
  const { actor, reason, json } = options;
  // Where it may be left out for a list.
  if (!reason) throw new UsageError("required option '--reason <text>' not specified");
  const stores = await openLeasesAndControl(whereOf(command));
  try {
    const pause = await setPause(operatorOf(stores), key, { actor, reason });
    print(json, pause, () => `paused ${key.kind} "${key.name}"`);
  } finally {
    await stores.close();
  }
}

export function addResume(program: Command): void {
  withWhat(withAct(program.command("resume")))
    .description("take a pause back")
    .addHelpText("after", RESUME_HELP)
    .action(async (resource: string | undefined, options: PauseOptions, command: Command) =>
      resumeWhat(keyOf(resource, options), options, command),
    );
}

export async function resumeWhat(
  key: PauseKey,
  options: ActOptions,
  command: Command,
): Promise<void> {
  const stores = await openLeasesAndControl(whereOf(command));
  try {
    const { actor, reason } = options;
    const wasPaused = await clearPause(operatorOf(stores), key, { actor, reason });
    const what = `${key.kind} "${key.name}"`;
    const said = wasPaused ? `resumed ${what}` : `${what} was not paused`;
    print(options.json, { ...key, wasPaused }, () => said);
  } finally {
    await stores.close();
  }
}

function withWhat(command: Command): Command {
  return command
    .argument("[resource]", "one resource")
    .option("--prefix <text>", "all resources that begin with it; '': all")
    .option("--queue <name>", "a queue of tasks");
}

function keyOf(resource: string | undefined, { prefix, queue, namespace }: PauseOptions): PauseKey {
  const named: Pick<PauseKey, "kind" | "name">[] = [];
  if (resource !== undefined) named.push({ kind: "resource", name: resource });
  if (prefix !== undefined) named.push({ kind: "prefix", name: prefix });
  if (queue !== undefined) named.push({ kind: "queue", name: queue });
  const [one, ...others] = named;
  if (one && others.length === 0) return { namespace, ...one };
  throw new UsageError("one of these: a resource, --prefix TEXT or --queue NAME");
}

function tableOf(pauses: readonly Pause[]): string {
  if (pauses.length === 0) return "nothing is paused";
  const table = plainTable(["kind", "name", "since", "by", "reason"]);
  for (const { kind, name, since, actor, reason } of pauses) {
    table.push([kind, JSON.stringify(name), since, actor, reason]);
  }
  return table.toString();
}

const REVOKE_HELP = `
The holder is refused at its next renewal. With --at expiry nobody else is granted the resource before the
holder had to stop anyway; with --at now at once, and until the holder has noticed only the fencing token
protects. Every act is entered in the audit, with --actor and --reason; what was refused too.

Exit codes: 0 revoked; 76 nothing to revoke (nobody holds it, or under another token).

Examples:
  leasehold revoke deploy/web --reason "runner is gone" --store postgres://localhost/app
  leasehold revoke deploy/web --at now --expected-token 1893499203120000 --reason "stuck since 10:00"`;

const PAUSE_HELP = `
Who holds what is paused keeps and renews it; who waits for it goes on waiting. A resource is paused in the
store, in the step that grants; a prefix or a queue by every server, within seconds.

Examples:
  leasehold pause deploy/web --reason "migration at 12:00"
  leasehold pause --prefix deploy/ --reason "code freeze"
  leasehold pause --queue mails --reason "provider is down"
  leasehold pause --list --json`;

const RESUME_HELP = `
Examples:
  leasehold resume deploy/web --reason "migration is over"
  leasehold resume --queue mails --reason "provider is back"`;
