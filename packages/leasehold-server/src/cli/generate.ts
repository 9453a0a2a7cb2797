import { type Command, Option } from "commander";
import type { Env, Stores } from "leasehold";
import {
  clientOver,
  formatDuration,
  GENERATOR_RESOURCE,
  Generator,
  type GeneratorWanted,
  steerGenerator,
  systemEnv,
} from "leasehold/internal";
import { operatorOf, withReason } from "./acts.js";
import { logLevelOption, newLogger } from "./log.js";
import { decimal, duration, type Where, whereOf, withStores } from "./options.js";
import { print } from "./output.js";
import { listenForShutdown } from "./shutdown.js";
import { openWhere } from "./stores.js";

const NAMESPACE = "default";
const rate = decimal(0.01, 1_000);

interface RunOptions {
  readonly ttl: number;
  readonly holder?: string;
  readonly logLevel: string;
}

export function addGenerate(program: Command): void {
  const generate = program
    .command("generate")
    .alias("generator")
    .description("make sample tasks at a steady rate: run an instance, or steer all of them")
    .addHelpText("after", HELP);
  withStores(generate.command("run", { isDefault: true }))
    .description("run an instance until told to stop; any number may run, one of them generates")
    .addOption(
      new Option("--ttl <duration>", "lease of the instance that generates")
        .argParser(duration)
        .default(5_000, "5s"),
    )
    .option("--holder <name>", "identity of this process (default: pid and randomness)")
    .addOption(logLevelOption())
    .argument("[word]")
    .usage("[options]")
    .action(async (word: string | undefined, options: RunOptions, command: Command) => {
      // Whatever is no command of generate comes here.
      if (word !== undefined) generate.error(`error: unknown command '${word}'`);
      await run(whereOf(command), options);
    });
  steering(generate, "start", "generate from now on")
    .option("--rate <n>", "tasks per second, 0.01 to 1000", rate)
    .action(async (options: SteerOptions & { rate?: number }, command: Command) =>
      steer(command, options, {
        running: true,
        ...(options.rate && { ratePerSecond: options.rate }),
      }),
    );
  steering(generate, "stop", "generate no more; the instances stay ready").action(
    async (options: SteerOptions, command: Command) => steer(command, options, { running: false }),
  );
  steering(generate, "rate", "change the rate")
    .argument("<n>", "tasks per second, 0.01 to 1000", rate)
    .action(async (ratePerSecond: number, options: SteerOptions, command: Command) =>
      steer(command, options, { ratePerSecond }),
    );
  withStores(generate.command("status"))
    .description("say what is wanted and who generates")
    .option("--json", "for machines")
    .action(async ({ json }: { json?: boolean }, command: Command) =>
      show(command, json, ({ generator }) => generator.read(NAMESPACE)),
    );
}

interface SteerOptions {
  readonly actor: string;
  readonly reason?: string;
  readonly json?: boolean;
}

function steering(generate: Command, name: string, description: string): Command {
  const command = withStores(generate.command(name).description(description));
  return withReason(command, { needsReason: false }).option("--json", "for machines");
}

async function run(where: Where, options: RunOptions): Promise<void> {
  const logger = newLogger(options.logLevel);
  const env: Env = { ...systemEnv, logger };
  const shutdown = listenForShutdown(env.clock);
  const stores = await openWhere(where, env);
  const leases = clientOver(
    stores.leases,
    { env, ...(options.holder === undefined ? {} : { holder: options.holder }) },
    stores,
  );
  try {
    const generator = new Generator(leases, stores.tasks, stores.generator, { ttlMs: options.ttl });
    logger.info({ holder: leases.holder }, "ready to generate");
    await shutdown.requested();
    logger.info({ holder: leases.holder }, "draining");
    await generator.close();
  } finally {
    await leases.close();
  }
}

async function steer(
  command: Command,
  { actor, reason, json }: SteerOptions,
  change: Partial<GeneratorWanted>,
): Promise<void> {
  const by = { actor, reason: reason ?? null };
  await show(command, json, (stores) => steerGenerator(operatorOf(stores), NAMESPACE, change, by));
}

async function show(
  command: Command,
  json: boolean | undefined,
  wantedOf: (stores: Stores) => Promise<GeneratorWanted>,
): Promise<void> {
  const stores = await openWhere(whereOf(command), systemEnv);
  try {
    const status = await statusOf(stores, await wantedOf(stores));
    print(json, status, () => describe(status));
  } finally {
    await stores.close();
  }
}

async function statusOf(stores: Stores, { running, ratePerSecond }: GeneratorWanted) {
  const [lease] = await stores.leases.get([{ namespace: NAMESPACE, resource: GENERATOR_RESOURCE }]);
  const live = lease?.state === "live" ? lease : null;
  return {
    running,
    ratePerSecond,
    holder: live?.holder ?? null,
    token: live?.token ?? null,
    remainingMs: live?.remainingMs ?? null,
  };
}

function describe(status: Awaited<ReturnType<typeof statusOf>>): string {
  const { running, ratePerSecond, holder, token, remainingMs } = status;
  const wanted = running
    ? `started, ${ratePerSecond} tasks per second`
    : `stopped (${ratePerSecond} tasks per second when started)`;
  if (holder === null) return `${wanted}\nno instance runs`;
  return `${wanted}\nthe lease is with ${holder}, token ${token}, ${formatDuration(remainingMs ?? 0)} left`;
}

const HELP = `
What is wanted (started or stopped, the rate) is kept in the store, so start, stop, rate and status
mean every instance, wherever they are typed. Without a word after generate, it is run; its options
are in: leasehold generate run --help

Examples:
  leasehold generate --store http://127.0.0.1:4040
  leasehold generate start --rate 5 --store http://127.0.0.1:4040
  leasehold generate status --json`;
