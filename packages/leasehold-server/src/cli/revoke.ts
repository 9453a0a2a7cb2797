/** Revokes a lease. */
import { type Command, Option } from "commander";
import { LeaseLostError } from "leasehold";
import { formatDuration, type RevokeOutcome, type RevokeRequest } from "leasehold/internal";
import { EXIT } from "./exit-codes.js";
import { Exit } from "./failures.js";
import { type ActionOptions, actOf, operatorOf, withOperatorAction } from "./operator-actions.js";
import { integer, tenantOf, whereOf } from "./options.js";
import { print } from "./output.js";
import { resourceName } from "./resource.js";
import { openLeasesAndControl } from "./stores.js";
import { shown } from "./terminal.js";

interface Options extends ActionOptions {
  readonly expectedToken?: number;
  readonly at: "expiry" | "now";
}

export function addRevoke(command: Command): void {
  withOperatorAction(command)
    .argument("<resource>", "resource whose lease ends", resourceName)
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
    .addHelpText("after", HELP)
    .action(async (resource: string, options: Options, command: Command) => {
      const where = whereOf(command);
      const stores = await openLeasesAndControl(where);
      try {
        const namespace = tenantOf(command, stores);
        const operator = operatorOf(stores, where.control);
        const { expectedToken, at } = options;
        const request: RevokeRequest = {
          namespace,
          resource,
          free: at === "now" ? "now" : "atExpiry",
          ...(expectedToken !== undefined && { expectedToken }),
        };
        const outcome = await operator.perform(
          actOf({ ...options, namespace }, "lease.revoke", resource),
          async ({ leases }) => {
            const [value] = await leases.revoke([request]);
            if (!value) throw new LeaseLostError(resource, "inconsistent");
            const { status } = value;
            const token = value.status === "revoked" ? value.token : (expectedToken ?? null);
            return { value, details: { status, token, free: request.free } };
          },
        );
        if (outcome.status === "failed") throw outcome.error;
        await print(options.json, outcome, () => sayRevoked(shown(resource), outcome));
        if (outcome.status !== "revoked") throw new Exit(EXIT.leaseLost);
      } finally {
        await stores.close();
      }
    });
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

const HELP = `
"force-unlock" is another name of "revoke".

The store refuses the holder's next renewal. With --at expiry, the resource stays reserved until the lease
would have expired. With --at now, another holder can acquire it at once: until the old holder notices, only
the fencing token protects your data. The audit log records every attempt with --actor and --reason.

Exit codes: 0 revoked; 76 nothing to revoke (the resource is not held, or is held with another token).

Examples:
  leasehold revoke deploy/web --reason "runner is gone" --store postgres://localhost/app
  leasehold revoke deploy/web --at now --expected-token 1893499203120000 --reason "stuck since 10:00"`;
