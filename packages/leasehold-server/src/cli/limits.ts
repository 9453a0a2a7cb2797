/** Shows and sets the limits of a tenant, directly in the database. */
import { type Command, InvalidArgumentError } from "commander";
import type { LeaseStores } from "leasehold";
import type { Control, TenantLimits } from "leasehold/internal";
import { UsageError } from "./failures.js";
import { type ActionOptions, actOf, withOperatorAction } from "./operator-actions.js";
import { controlWhereOf, decimal, integer, tenantOf, withStores } from "./options.js";
import { print } from "./output.js";
import { withControl, withControlOrServer } from "./stores.js";
import { say, shown } from "./terminal.js";

const MOST = 1_000_000_000;

export function addLimits(limits: Command): void {
  limits.addHelpText("after", HELP);
  addShow(limits);
  addSet(limits);
}

function addShow(limits: Command): void {
  withStores(limits.command("show"))
    .description("show the limits of a tenant")
    .option("--json", "print JSON")
    .action(async ({ json }: { json?: boolean }, command: Command) => {
      await withControlOrServer(controlWhereOf(command), async ({ limits: kept }, served) => {
        const namespace = tenantOf(command, served);
        await show(namespace, await kept.read(namespace), json);
      });
    });
}

interface SetOptions extends ActionOptions {
  readonly leases?: Limit;
  readonly tasks?: Limit;
  readonly rate?: Limit;
}

/** `none` removes the limit. Not null, which Commander would turn into "". */
type Limit = number | "none";

function addSet(limits: Command): void {
  withOperatorAction(limits.command("set"))
    .description("change limits of a tenant; limits that you do not name stay as they are")
    .option("--leases <n>", "live leases at once; none means the limit of the server", count)
    .option(
      "--tasks <n>",
      "pending and running tasks at once; none means the limit of the server",
      count,
    )
    .option(
      "--rate <n>",
      "requests per second of the tenant at each instance; none means the limit of the server",
      perSecond,
    )
    .addHelpText("after", SET_HELP)
    .action(async (options: SetOptions, command: Command) => {
      const { namespace, leases, tasks, rate, json } = options;
      const change: Partial<TenantLimits> = {
        ...(leases !== undefined && { leases: limitOf(leases) }),
        ...(tasks !== undefined && { tasks: limitOf(tasks) }),
        ...(rate !== undefined && { ratePerSecond: limitOf(rate) }),
      };
      if (Object.keys(change).length === 0) {
        throw new UsageError("name at least one limit: --leases, --tasks or --rate");
      }
      const act = actOf(options, "limits.set", namespace);
      const after = await withControl(
        controlWhereOf(command, { creates: true }),
        async (control, stores) => {
          await warnOfUnknown(namespace, control, stores);
          return control.perform(act, async (actors) => ({
            value: await actors.limits.set(namespace, change),
            details: change,
          }));
        },
      );
      await show(namespace, after, json);
    });
}

/** Limits may be set before the first key of a tenant is made, but more often its name is misspelt. */
async function warnOfUnknown(
  namespace: string,
  { keys }: Control,
  { leases, tasks }: LeaseStores,
): Promise<void> {
  const first = { namespace, limit: 1 };
  const none = { items: [] };
  const found = await Promise.all([
    keys.list(first),
    leases.list(first),
    tasks ? tasks.list(first) : Promise.resolve(none),
  ]);
  if (namespace === "default" || found.some(({ items }) => items.length > 0)) return;
  say(
    `leasehold: no API key, lease or task is in namespace "${shown(namespace)}" yet: check its name, and if it is wrong, set these limits to none again`,
  );
}

async function show(
  namespace: string,
  limits: TenantLimits,
  json: boolean | undefined,
): Promise<void> {
  const limitOr = (limit: number | null) => limit ?? "limit of the server";
  await print(json, { namespace, ...limits }, () =>
    [
      `live leases                  ${limitOr(limits.leases)}`,
      `pending and running tasks    ${limitOr(limits.tasks)}`,
      `requests per second ${limitOr(limits.ratePerSecond)}`,
    ].join("\n"),
  );
}

function limitOf(limit: Limit): number | null {
  return limit === "none" ? null : limit;
}

const orNone =
  (parse: (text: string) => number) =>
  (text: string): Limit =>
    text === "none" ? text : parse(text);
const count = orNone(integer(1, MOST));
const perSecond = orNone((text) => {
  const value = decimal(0, MOST)(text);
  if (value === 0) throw new InvalidArgumentError("It must be greater than 0.");
  return value;
});

const HELP = `
Servers apply a change within seconds. A lower limit does not end leases or tasks that already exist. Leases and tasks
are 1 to 1,000,000,000, as over HTTP. To refuse a tenant everything, revoke its keys.

Examples:
  leasehold limits show --namespace shop
  leasehold limits set --namespace shop --leases 5000 --rate 200 --reason "as agreed"`;

const SET_HELP = `
Examples:
  leasehold limits set --tasks 100000 --reason "larger batch at night"
  leasehold limits set --rate none --reason "trial is over"`;
