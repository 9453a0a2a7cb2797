import { type Command, InvalidArgumentError, Option } from "commander";
import { type Env, InvalidOptionError, type Logger } from "leasehold";
import { sleep, systemEnv } from "leasehold/internal";
import {
  type ConsoleFiles,
  consoleFiles,
  createApp,
  DEFAULT_LIMITS,
  type Listening,
  type ListenOptions,
  listen,
  type ServerApp,
  type ServerLimits,
} from "../http/index.js";
import { LOOPBACK_HOSTS } from "../protocol/index.js";
import { checkDirectories, directoryOf } from "./directories.js";
import { logLeaseEvent, logTaskEvent } from "./events-log.js";
import { exportsTo } from "./export-notices.js";
import { accessFor, type Exposure, keysStateOf, logAccess } from "./exposure.js";
import { UsageError } from "./failures.js";
import { keyMaxLifeOption } from "./keys.js";
import { logLevelOption, newLogger, noticesTo } from "./log.js";
import { warnOfNoEffect } from "./no-effect.js";
import { logSessions, type OidcFlags, oidcOf, withOidc } from "./oidc.js";
import {
  duration,
  EMBEDDED,
  integer,
  listeningPort,
  notBlank,
  ownWhereOf,
  type Where,
  withDatabase,
} from "./options.js";
import { type SecurityOptions, securityOf, withSecurity } from "./serve-security.js";
import { shownUrl } from "./shown-url.js";
import { listenForShutdown } from "./shutdown.js";
import { openWhere } from "./stores.js";
import { namesOf, type TelemetryOptions, withMetricNames } from "./telemetry.js";
import { VERSION } from "./version.js";

interface Options extends TelemetryOptions, Exposure, OidcFlags, SecurityOptions {
  readonly auditDenials?: boolean;
  readonly auditReads?: boolean;
  readonly port: number;
  readonly console: boolean;
  readonly limits?: Partial<ServerLimits>;
  readonly maxConnectionsPerAddress?: number;
  readonly keyMaxLife?: number;
  readonly drainDelay: number;
  readonly logLevel: string;
}

export function portOption(): Option {
  return new Option("--port <n>", "port to listen on; 0 chooses a free one")
    .argParser(listeningPort)
    .env("PORT")
    .default(4040);
}

export function addServe(command: Command): void {
  withOidc(withSecurity(withMetricNames(withDatabase(command, EMBEDDED))))
    .option(
      "--audit-denials",
      "enter refused requests of known callers in the audit, at most 10 of each in a minute",
    )
    .option(
      "--audit-reads",
      "enter reads of the audit and of the keys in the audit, at most 10 of each caller in a minute",
    )
    .option(
      "--host <address>",
      "address to listen on; 0.0.0.0 serves other machines too, and requires an API key",
      notBlank,
      "127.0.0.1",
    )
    .option(
      "--require-keys",
      "require an API key from the start; if there was none yet, print a token that creates the first",
    )
    .option(
      "--insecure-no-keys",
      "serve other machines without an API key: any caller may do everything",
    )
    .addOption(portOption())
    .addOption(keyMaxLifeOption())
    .option("--no-console", "serve only the API, without the web console")
    .option(
      "--limits <name=number,...>",
      `limits of this instance: ${Object.keys(DEFAULT_LIMITS).join(", ")}; "none" for no limit, where there may be none`,
      limitsOf,
    )
    .option(
      "--max-connections-per-address <n>",
      "connections of one remote address, of 10,000 in total, and a quarter of them at once; behind a proxy, all of its clients have one address (default: 8000)",
      integer(1, 10_000),
    )
    .addOption(
      new Option(
        "--drain-delay <duration>",
        "how long to serve on after SIGTERM while /readyz refuses, so that load balancers notice",
      )
        .argParser(duration)
        .default(0, "0s"),
    )
    .addOption(logLevelOption())
    .addHelpText("after", HELP)
    .action(async (options: Options, command: Command) => serve(command, options));
}

/** Parses --limits. The app checks the names and numbers. */
function limitsOf(text: string): Partial<ServerLimits> {
  const pairs = text.split(",").map((pair) => pair.split("="));
  const names = pairs.map(([name]) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new InvalidArgumentError(`${twice} is given more than once.`);
  return Object.fromEntries(
    pairs.map(([name = "", value = ""]) => [name, value === "none" ? null : Number(value)]),
  );
}

async function serve(command: Command, options: Options): Promise<void> {
  const logger = newLogger(options.logLevel);
  const where = ownWhereOf(command, { notify: noticesTo(logger) });
  for (const [scheme, name] of Object.entries(BOUND)) {
    if (where.store.toLowerCase().startsWith(scheme)) throw new UsageError(boundTo(name, scheme));
  }
  const oidc = await oidcOf(options);
  checkDirectories(where, where.notify);
  const shutdown = listenForShutdown(systemEnv.clock);
  const { startOpenTelemetry } = await import("./open-telemetry.js");
  const exporting = await startOpenTelemetry(namesOf(options), { notify: exportsTo(logger) });
  const { telemetry, metrics } = exporting;
  const env: Env = { ...systemEnv, logger, telemetry };
  const security = await securityOf(options, env);
  const stores = await openWhere(where, env, { isPatient: true, signal: shutdown.signal });
  try {
    // Asked before it listens: from then on it outlives a store that fails.
    const keys = await keysStateOf(stores);
    const access = accessFor(options, stores, keys);
    const files = options.console ? await consoleOrSay(logger) : null;
    const app = createApp({
      ...stores,
      env,
      ...access,
      oidc,
      ...security.app,
      keyMaxLifeMs: options.keyMaxLife,
      auditDenials: options.auditDenials,
      auditReads: options.auditReads,
      trustedHosts: options.insecureNoKeys
        ? "any"
        : [...new Set([...LOOPBACK_HOSTS, options.host])],
      ...(options.limits && { limits: options.limits }),
      metrics,
      console: files,
      engine: engineOf(where),
      version: VERSION,
      onLeaseEvent: (event) => logLeaseEvent(logger, event),
      onTaskEvent: (event) => logTaskEvent(logger, event),
    });
    const server = await listenOrSay(app, { ...options, ...security.connections, logger });
    const store = shownUrl(where.store);
    const control = where.control === undefined ? {} : { control: shownUrl(where.control) };
    const page = files ? { console: `${server.url}/` } : {};
    const message = files
      ? `listening on ${server.url}, console at ${server.url}/`
      : `listening on ${server.url}`;
    const directory = directoryOf(where.store);
    const placed = directory === undefined ? {} : { directory };
    logger.info({ url: server.url, ...page, store, ...placed, ...control }, message);
    const unfollow = security.follow(server, stores);
    logAccess(logger, options, keys, access);
    logSessions(logger, options);
    warnOfNoEffect(logger, options, stores, keys);
    const ends = stores.stopped ? [stores.stopped] : [];
    const stopped = await Promise.race([shutdown.requested(), ...ends]);
    if (stopped) logger.error({ event: "store_stopped", err: stopped }, stopped.message);
    logger.info({}, "draining");
    server.drain();
    if (!stopped) await sleep(systemEnv.clock, options.drainDelay);
    await unfollow();
    await server.close();
    if (stopped) throw stopped;
  } finally {
    await stores.close();
    await exporting.close();
  }
  logger.info({}, "closed");
}

/** Returns null and logs a warning if this package was built without a console. */
export async function consoleOrSay(logger: Logger): Promise<ConsoleFiles | null> {
  const files = await consoleFiles();
  if (!files) logger.warn({ event: "no_console" }, "the console was not built: serving without it");
  return files;
}

/** The name of the engine, for people. */
export function engineOf({ store }: Where): string {
  const [scheme = ""] = store.split(":", 1);
  return scheme === "postgresql" ? "postgres" : scheme.toLowerCase();
}

/** @throws UsageError with the remedy if the address cannot be used */
export async function listenOrSay(
  app: ServerApp,
  { host, port, ...rest }: Omit<ListenOptions, "app"> & { host: string },
): Promise<Listening> {
  try {
    return await listen({ app, host, port, ...rest });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    await app.close();
    if (error instanceof InvalidOptionError) {
      throw new UsageError(
        `the certificates of --tls-cert, --tls-key and --tls-client-ca: ${error.message}`,
      );
    }
    if (code === "EADDRINUSE") {
      throw new UsageError(
        `port ${port} of ${host} is in use: stop what listens there, or choose another port with --port or PORT (0: a free one)`,
      );
    }
    if (code === "EACCES") {
      throw new UsageError(
        `no permission to listen on port ${port}: choose a port above 1023 with --port or PORT`,
      );
    }
    if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
      throw new UsageError(`${host} is no address of this machine: choose one with --host`);
    }
    throw error;
  }
}

/** Engines whose leases end with the client that acquires them. */
const BOUND = {
  "zookeeper:": "ZooKeeper",
  "zookeepers:": "ZooKeeper",
  "consul:": "Consul",
  "consuls:": "Consul",
};

function boundTo(name: string, scheme: string): string {
  return `a server cannot serve leases of ${name}: each lease ends with the process that acquires it, here the server. Let your programs connect to ${scheme}// themselves, or serve another store`;
}

const HELP = `
Without --store, the server keeps everything in an embedded database in the working directory, ./.leasehold,
and logs where that is. Any number of servers can share one PostgreSQL database.

At SIGINT or SIGTERM the server waits --drain-delay, finishes its requests within 5s, and exits with 0. A second
signal ends it at once. It logs JSON lines to stderr.

Without an API key, the server accepts every caller, but only from this machine, and no request that a proxy
forwards. Once you create a key (leasehold keys create), every request needs one, without a restart, and for
good: also when that key has ended. "leasehold keys --help" describes the roles.

With --require-keys, every request needs a key from the start. If none was ever created, the server prints a
token to stdout, which creates the first, an admin's, once:
  curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
    -d '{"name":"me","role":"admin"}' http://127.0.0.1:4040/v1/keys
If all keys are lost, leasehold keys create on the server's store makes a new one.

With --oidc-issuer, callers may send a JSON Web Token of that issuer instead of a key, and with --oidc-client-id people
sign in to the console there. --oidc-role says which claims give which role: groups:shop-ops=operator,tenant=shop or
sub:ci:*=holder,prefix=build/. A token that matches none has no access.

With --tls-cert and --tls-key the server speaks https, from TLS 1.2 on, and uses changed files for new connections
(also at SIGHUP). With --tls-client-ca, requests need a certificate that one of these authorities has signed. The list
of --tls-client-keys has lines like "dns:worker-1.example 0123456789ab", with the id of a key.

--audit-denials and --audit-reads enter refused requests of known callers, and reads of the audit and of the keys, in
the audit.

Open the server's address in a browser for the console, which shows leases, tasks and elections live.

Prometheus can scrape GET /metrics. OTEL_EXPORTER_OTLP_ENDPOINT names a collector of metrics and traces.

Examples:
  leasehold serve
  leasehold serve --require-keys
  leasehold serve --host 0.0.0.0 --tls-cert server.crt --tls-key server.key --allow-from shop=10.0.0.0/8
  leasehold serve --store postgres://localhost/app --port 8080 --limits leases=10000,waiters=200
  leasehold serve --oidc-issuer https://id.example --oidc-audience leases --oidc-role groups:lease-admins=admin
  export LEASEHOLD_STORE=postgres://localhost/app
  leasehold keys create --name ops --role admin && leasehold serve --host 0.0.0.0`;
