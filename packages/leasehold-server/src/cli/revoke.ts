/** Revokes a lease, and lists and confirms revocations that need a second operator. */
import { type Command, Option } from "commander";
import { LeaseLostError, type LeaseStores } from "leasehold";
import {
  formatDuration,
  type RemoteOperator,
  type RequestedRevocation,
  type RevokeOutcome,
  type RevokeRequest,
} from "leasehold/internal";
import { EXIT } from "./exit-codes.js";
import { Exit, UsageError } from "./failures.js";
import { type ActionOptions, actOf, operatorOf, withOperatorAction } from "./operator-actions.js";
import { integer, tenantOf, whereOf } from "./options.js";
import { print } from "./output.js";
import { resourceName } from "./resource.js";
import { openLeasesAndControl } from "./stores.js";
import { plainTable } from "./table.js";
import { safeJson, shown } from "./terminal.js";

interface Options extends Omit<ActionOptions, "reason"> {
  readonly reason?: string;
  readonly expectedToken?: number;
  readonly at: "expiry" | "now";
  readonly confirm?: number;
  readonly list?: boolean;
}

/** The options of an action on a resource. */
type Revocation = Options & ActionOptions;

export function addRevoke(command: Command): void {
  withOperatorAction(command, { needsReason: false })
    .argument("[resource]", "resource whose lease ends", resourceName)
    .addOption(
      new Option("--at <when>", "when the resource is free: at the expiry of the lease, or now")
        .choices(["expiry", "now"])
        .default("expiry"),
    )
    .option(
      "--expected-token <n>",
      "revoke only the grant with this token",
      integer(1, Number.MAX_SAFE_INTEGER),
    )
    .option(
      "--confirm <id>",
      "confirm this revocation of another operator; needs --expected-token, and the --at of the request",
      integer(1, Number.MAX_SAFE_INTEGER),
    )
    .option("--list", "list the revocations that wait for a second operator, and change nothing")
    .addHelpText("after", HELP)
    .action(async (resource: string | undefined, options: Options, command: Command) => {
      checkList(resource, options, command);
      const where = whereOf(command);
      const stores = await openLeasesAndControl(where);
      try {
        const namespace = tenantOf(command, stores);
        if (options.list) return await list(remoteOf(stores, "--list"), options);
        const { reason = "" } = options;
        const revocation = { ...options, namespace, reason };
        if (options.confirm !== undefined) {
          await confirm(remoteOf(stores, "--confirm"), resource ?? "", revocation);
        } else {
          await revoke(stores, where.control, resource ?? "", revocation);
        }
      } finally {
        await stores.close();
      }
    });
}

function checkList(resource: string | undefined, options: Options, command: Command): void {
  const { list: lists, reason, confirm: id, expectedToken } = options;
  if (lists) {
    if (resource !== undefined) throw new UsageError("--list lists all: leave out the resource");
    for (const [name, flag] of [
      ["reason", "--reason"],
      ["actor", "--actor"],
      ["at", "--at"],
      ["expectedToken", "--expected-token"],
      ["confirm", "--confirm"],
    ] as const) {
      if (command.getOptionValueSource(name) !== "cli") continue;
      throw new UsageError(`${flag} has no meaning with --list, which changes nothing`);
    }
    return;
  }
  if (resource === undefined) throw new UsageError("missing required argument 'resource'");
  // Commander does not require it, because --list needs no reason.
  if (!reason) throw new UsageError("required option '--reason <text>' not specified");
  if (id !== undefined && expectedToken === undefined) {
    throw new UsageError("--confirm needs --expected-token: the token that was requested");
  }
}

/** @throws UsageError for a database, on which a revocation takes effect at once */
function remoteOf({ control, operator }: LeaseStores, option: string): RemoteOperator {
  if (operator && !control) return operator;
  throw new UsageError(
    `${option} needs a server (--store http://...), which asks a second operator: on a database itself, a revocation takes effect at once`,
  );
}

async function revoke(
  stores: LeaseStores,
  control: string | undefined,
  resource: string,
  options: Revocation,
): Promise<void> {
  const operator = operatorOf(stores, control);
  const { namespace, expectedToken, at } = options;
  const request: RevokeRequest = {
    namespace,
    resource,
    free: freeOf(at),
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
  if (outcome.status === "failed") {
    const requested = requestedIn(outcome.error);
    if (!requested) throw outcome.error;
    const answer = { status: "requested", ...requested };
    await print(options.json, answer, () => sayRequested(requested));
    throw new Exit(EXIT.leaseUnavailable);
  }
  await print(options.json, outcome, () => sayRevoked(shown(resource), outcome));
  if (outcome.status !== "revoked") throw new Exit(EXIT.leaseLost);
}

function freeOf(at: Options["at"]): RevokeRequest["free"] {
  return at === "now" ? "now" : "atExpiry";
}

function requestedIn(error: object): RequestedRevocation | undefined {
  return (error as { revocation?: RequestedRevocation }).revocation;
}

function sayRevoked(
  resource: string,
  outcome: Exclude<RevokeOutcome, { status: "failed" }>,
): string {
  switch (outcome.status) {
    case "revoked": {
      const { token, freeInMs } = outcome;
      const free = freeInMs === 0 ? "free now" : `free in ${formatDuration(freeInMs)}`;
      return `revoked ${resource}, token ${token}: ${free}`;
    }
    case "notHeld":
      return `${resource} is not held: nothing was revoked`;
    case "otherToken":
      return `${resource} is held with another token: nothing was revoked`;
  }
}

function sayRequested(requested: RequestedRevocation): string {
  const { id, resource, token, free, requestedBy, confirmBefore } = requested;
  const at = free === "now" ? " --at now" : "";
  return [
    `nothing was revoked yet: ${shown(resource)}, token ${token}, needs a second operator`,
    `request ${id} of ${shown(requestedBy)} can be confirmed until ${confirmBefore}, by another key or person:`,
    `  leasehold revoke ${safeJson(resource)} --confirm ${id} --expected-token ${token}${at} --reason "..."`,
  ].join("\n");
}

async function confirm(
  operator: RemoteOperator,
  resource: string,
  { confirm: id = 0, expectedToken: token = 0, at, reason, actor, json }: Revocation,
): Promise<void> {
  const known = (await operator.revocations.list()).find((one) => one.id === id);
  if (known && known.resource !== resource) {
    const other = `revocation ${id} is of "${shown(known.resource)}", not of "${shown(resource)}"`;
    throw new UsageError(`${other}: nothing was revoked`);
  }
  const outcome = await operator.revocations.confirm(
    id,
    { token, free: freeOf(at), reason },
    actor,
  );
  await print(json, outcome, () => sayRevoked(shown(outcome.resource), outcome));
}

async function list(operator: RemoteOperator, { json }: Options): Promise<void> {
  const items = await operator.revocations.list();
  await print(json, items, () => {
    if (items.length === 0) return "no revocation waits for a second operator";
    const table = plainTable([
      "id",
      "resource",
      "holder",
      "token",
      "free",
      "by",
      "reason",
      "until",
    ]);
    for (const { id, resource, holder, token, free, requestedBy, reason, confirmBefore } of items) {
      const about = [String(id), safeJson(resource), shown(holder), String(token), free];
      table.push([...about, shown(requestedBy), shown(reason ?? ""), confirmBefore]);
    }
    return table.toString();
  });
}

const HELP = `
"force-unlock" is another name of "revoke".

The store refuses the holder's next renewal. With --at expiry, the resource stays reserved until the lease
would have expired. With --at now, another holder can acquire it at once: until the old holder notices, only
the fencing token protects your data. The audit log records every attempt with --actor and --reason.

A server may demand that two operators agree (leasehold serve --two-person-revoke). It then only records the
revocation, and the command prints its id. Another operator confirms it with --confirm, the same --at and the token.

Exit codes: 0 revoked; 75 a second operator must confirm it; 76 nothing to revoke (the resource is not held, or is held
with another token).

Examples:
  leasehold revoke deploy/web --reason "runner is gone" --store postgres://localhost/app
  leasehold revoke deploy/web --at now --expected-token 1893499203120000 --reason "stuck since 10:00"
  leasehold revoke --list --store http://localhost:4040
  leasehold revoke pay/eu --confirm 4711 --expected-token 12 --reason "I saw it hang" --store http://localhost:4040`;
