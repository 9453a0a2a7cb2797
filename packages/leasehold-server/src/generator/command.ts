import type { Command } from "commander";
import { connect, type Env, type Stores } from "leasehold";
import { formatDuration, systemEnv, withoutUndefined } from "leasehold/internal";
import { exportsTo } from "../cli/export-notices.js";
import { logLevelOption, newLogger, noticesTo } from "../cli/log.js";
import { operatorOf, withReason } from "../cli/operator-actions.js";
import {
  decimal,
  duration,
  notBlank,
  tenantOf,
  type Where,
  whereOf,
  withStores,
} from "../cli/options.js";
import { print } from "../cli/output.js";
import { shownUrl } from "../cli/shown-url.js";
import { listenForShutdown } from "../cli/shutdown.js";
import { openWhere } from "../cli/stores.js";
import { startTelemetry, type TelemetryOptions, withTelemetry } from "../cli/telemetry.js";
import { shown } from "../cli/terminal.js";
import { GENERATOR_RESOURCE } from "./shared.js";
import { startGenerator } from "./singleton.js";
import { GeneratorState, type GeneratorWanted } from "./state.js";

const rate = decimal(0.01, 1_000);

interface RunOptions extends TelemetryOptions {
  readonly ttl?: number;
  readonly holder?: string;
  readonly logLevel: string;
}

export function addGenerate(generate: Command): void {
  generate.addHelpText("after", HELP);
  withTelemetry(withStores(generate.command("run", { isDefault: true })))
    .description("run an instance until it is stopped; of all instances, only the leader generates")
    .option(
      "--ttl <duration>",
      "TTL of the lease of the generating instance (default: 5s, or the nearest that the store allows)",
      duration,
    )
    .option("--holder <name>", "name of this holder (default: HOST-PID-RANDOM)", notBlank)
    .addOption(logLevelOption())
    .argument("[word]")
    .usage("[options]")
    .action(async (word: string | undefined, options: RunOptions, command: Command) => {
      // `run` is the default command, so unknown commands arrive here.
      if (word !== undefined) generate.error(`error: unknown command '${word}'`);
      await run(command, options);
    });
  steering(generate, "start", "let the running instances generate")
    .option("--rate <n>", "tasks per second, 0.01 to 1000", rate)
    .action(async (options: SteerOptions & { rate?: number }, command: Command) => {
      const change = { running: true, ...(options.rate && { ratePerSecond: options.rate }) };
      await steer(whereOf(command, { creates: true }), command, options, change);
    });
  steering(generate, "stop", "stop generating; the instances stay ready").action(
    async (options: SteerOptions, command: Command) =>
      steer(whereOf(command), command, options, { running: false }),
  );
  steering(generate, "rate", "change the rate")
    .argument("<n>", "tasks per second, 0.01 to 1000", rate)
    .action(async (ratePerSecond: number, options: SteerOptions, command: Command) =>
      steer(whereOf(command), command, options, { ratePerSecond }),
    );
  withStores(generate.command("status"))
    .description("print the desired state and the instance that generates")
    .option("--json", "print JSON")
    .action(async ({ json }: { json?: boolean }, command: Command) =>
      show(whereOf(command), command, json, ({ backing }, namespace) =>
        new GeneratorState(backing).read(namespace),
      ),
    );
}

interface SteerOptions {
  readonly actor: string;
  readonly reason?: string;
  readonly json?: boolean;
}

function steering(generate: Command, name: string, description: string): Command {
  const command = withStores(generate.command(name).description(description));
  return withReason(command, { needsReason: false }).option("--json", "print JSON");
}

async function run(command: Command, options: RunOptions): Promise<void> {
  const logger = newLogger(options.logLevel);
  const where = whereOf(command, { creates: true, notify: noticesTo(logger) });
  const exporting = await startTelemetry(options, exportsTo(logger));
  const { telemetry, metricsUrl } = exporting;
  const env: Env = { ...systemEnv, logger, telemetry };
  const shutdown = listenForShutdown(env.clock);
  const stores = await openWhere(where, env, { isPatient: true, signal: shutdown.signal });
  const leasehold = await connect(stores.leases, {
    ...withoutUndefined({ holder: options.holder }),
    env,
    namespace: tenantOf(command, stores),
    unfenced: true,
  });
  const { holder } = leasehold;
  try {
    const generator = startGenerator({
      leasehold,
      tasks: telemetry?.measured("tasks", stores.tasks, env.clock) ?? stores.tasks,
      state: new GeneratorState(stores.backing),
      env,
      ttlMs: options.ttl,
    });
    const metrics = metricsUrl === undefined ? {} : { metrics: metricsUrl };
    logger.info({ holder, ...metrics }, "ready to generate");
    await shutdown.requested();
    logger.info({ holder }, "draining");
    await generator[Symbol.asyncDispose]();
  } finally {
    await leasehold.close();
    await stores.close();
    await exporting.close();
  }
}

async function steer(
  where: Where,
  command: Command,
  { actor, reason, json }: SteerOptions,
  change: Partial<GeneratorWanted>,
): Promise<void> {
  const by = { actor, reason: reason ?? null };
  await show(where, command, json, (stores, namespace) =>
    new GeneratorState(stores.backing).steer(operatorOf(stores), namespace, change, by),
  );
}

async function show(
  where: Where,
  command: Command,
  json: boolean | undefined,
  wantedOf: (stores: Stores, namespace: string) => Promise<GeneratorWanted>,
): Promise<void> {
  const stores = await openWhere(where, systemEnv);
  const namespace = tenantOf(command, stores);
  try {
    const status = await statusOf(stores, namespace, await wantedOf(stores, namespace));
    await print(json, status, () => describe(status, shownUrl(where.store)));
  } finally {
    await stores.close();
  }
}

async function statusOf(
  stores: Stores,
  namespace: string,
  { running, ratePerSecond }: GeneratorWanted,
) {
  const [lease] = await stores.leases.get([{ namespace, resource: GENERATOR_RESOURCE }]);
  const live = lease?.state === "live" ? lease : null;
  return {
    running,
    ratePerSecond,
    holder: live?.holder ?? null,
    token: live?.token ?? null,
    remainingMs: live?.remainingMs ?? null,
  };
}

function describe(status: Awaited<ReturnType<typeof statusOf>>, store: string): string {
  const { running, ratePerSecond, holder, token, remainingMs } = status;
  const wanted = running
    ? `started, ${ratePerSecond} tasks per second`
    : `stopped (${ratePerSecond} tasks per second when started)`;
  if (holder === null) {
    const remedy = running ? ": nothing is generated until one does (leasehold generate run)" : "";
    return `${wanted}\nno instance is running on ${shown(store)}${remedy}`;
  }
  return `${wanted}\nthe lease is held by ${holder}, token ${token}, ${formatDuration(remainingMs ?? 0)} left`;
}

const HELP = `
The store keeps the desired state (started or stopped, and the rate), so start, stop, rate and status
apply to all instances, on any machine. They run no instance: "generate run" does, "serve" does not. Without a
subcommand, generate means generate run.
Its options: leasehold generate run --help

Examples:
  leasehold generate --store http://127.0.0.1:4040
  leasehold generate start --rate 5 --store http://127.0.0.1:4040
  leasehold generate status --json`;
