/**
 * Who may import whom, and who may touch the outside world: one set of tables a package.
 * What the packages may take from each other is decided by their `exports`.
 */
import { readFileSync } from "node:fs";
import type { Rules } from "./check.js";

interface Manifest {
  readonly dependencies: object;
  readonly peerDependencies: object;
}

export function manifestOf(name: string): Manifest {
  const url = new URL(`../../../packages/${name}/package.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8")) as Manifest;
}

/** What the user may not have installed: loaded when a store is opened or a suite is run. */
export function optionalPeers(name: string): string[] {
  return Object.keys(manifestOf(name).peerDependencies);
}

export const LIBRARY: Rules = {
  mayImport: {
    env: [],
    lease: ["env"],
    "store-kit": ["env", "lease"],
    election: ["env", "lease"],
    fence: ["env", "lease"],
    control: ["env", "lease", "tasks", "once"],
    instrumentation: ["env", "lease", "election", "tasks"],
    tasks: ["env", "lease"],
    once: ["env", "lease", "tasks"],
    wire: ["lease", "tasks", "once", "control", "election"],
    "stores/memory": ["env", "lease", "store-kit", "tasks", "once", "control", "stores/source"],
    "stores/postgres": ["env", "lease", "store-kit", "tasks", "once", "control", "stores/source"],
    "stores/http": [
      "env",
      "lease",
      "store-kit",
      "tasks",
      "once",
      "control",
      "wire",
      "stores/source",
    ],
    "stores/consul": ["env", "lease", "store-kit", "stores/source"],
    "stores/etcd": ["env", "lease", "store-kit", "stores/source"],
    "stores/kubernetes": ["env", "lease", "store-kit", "stores/source"],
    "stores/redis": ["env", "lease", "store-kit", "stores/source"],
    "stores/sqlite": ["env", "lease", "store-kit", "stores/source"],
    "stores/zookeeper": ["env", "lease", "store-kit", "stores/source"],
    "stores/source": ["env", "lease", "tasks", "once", "control"],
    "stores/opening": ["env", "lease", "store-kit", "once", "control", "stores/source"],
    "stores/open-anywhere": ["stores/opening", "stores/memory", "stores/http"],
    "stores/open": ["env", "stores/opening", "stores/open-anywhere", "stores/source", "stores/*"],
    testing: ["env", "lease", "store-kit", "tasks", "once", "control"],
    // The APIs of other packages on a client of ours.
    compat: ["env", "lease", "index", "stores/redis"],
    // What authors of stores import.
    port: ["env", "lease", "store-kit", "tasks"],
    // A worker thread opens a store of its own.
    "renewal-thread": ["env", "lease", "stores/open"],
    "renew-in": ["env", "lease", "stores/source"],
    // The public face: it joins the client with the stores.
    index: [
      "env",
      "lease",
      "tasks",
      "connect",
      "face",
      "leasehold",
      "renewal-thread",
      "stores/open",
      "stores/opening",
      "stores/source",
    ],
    browser: [
      "lease",
      "tasks",
      "connect",
      "face",
      "leasehold",
      "stores/opening",
      "stores/open-anywhere",
      "stores/source",
    ],
    // The client: leases, elections, tasks and once as one.
    leasehold: ["lease", "election", "tasks", "once", "leasehold-parts"],
    "leasehold-parts": ["lease", "tasks", "once"],
    connect: [
      "env",
      "lease",
      "instrumentation",
      "tasks",
      // Loaded at first use.
      "once",
      "leasehold",
      "renew-in",
      "stores/opening",
      "stores/source",
    ],
    // Of control it exports types alone: the opened stores name them.
    face: [
      "env",
      "lease",
      "control",
      "election",
      "tasks",
      "once",
      "connect",
      "leasehold",
      "stores/source",
    ],
    // What the server, its command line, the console and the verification share of the inside.
    internal: [
      "env",
      "lease",
      "store-kit",
      "election",
      "tasks",
      "once",
      "control",
      "instrumentation",
      "leasehold",
      "wire",
      "stores/*",
    ],
  },
  openModules: {
    "tasks/port.ts": ["port.ts", "stores/", "testing/", "control/", "once/"],
    // The store in Node, and what else is read from servers there.
    "stores/http/node.ts": ["stores/"],
    "stores/http/connection-node.ts": ["stores/"],
    "once/port.ts": ["stores/", "testing/", "control/", "wire/", "internal.ts"],
    "tasks/schedules/port.ts": ["stores/", "testing/", "control/", "wire/", "internal.ts"],
    "tasks/schedules/rules.ts": ["stores/"],
    "tasks/rules.ts": ["stores/", "testing/"],
    "tasks/operator-rules.ts": ["stores/", "testing/"],
    "tasks/keys.ts": ["stores/", "testing/"],
    "tasks/blocked-keys.ts": ["stores/"],
    "tasks/limits.ts": ["stores/"],
    "tasks/limits-port.ts": ["stores/"],
    "tasks/claims.ts": ["stores/"],
    "tasks/record.ts": ["stores/", "testing/"],
    "tasks/payloads.ts": ["stores/", "once/"],
    // What a value must be to be kept.
    "tasks/json.ts": ["once/", "internal.ts"],
    // What people and programs write, which the server and its command line read.
    "tasks/json-text.ts": ["internal.ts"],
    // What an operator behind a server is wrapped in.
    "control/operations.ts": ["stores/"],
    "tasks/leases.ts": ["stores/", "testing/"],
    // What some engines need, which no client loads without them.
    "store-kit/blocked-ports.ts": ["stores/", "internal.ts"],
    "store-kit/connecting.ts": ["stores/", "internal.ts"],
    "store-kit/driver.ts": ["stores/"],
    "store-kit/opening-server.ts": ["stores/"],
    "store-kit/own.ts": ["stores/"],
    "store-kit/sightings.ts": ["stores/"],
    "store-kit/tls.ts": ["stores/"],
    "store-kit/tls-connections.ts": ["stores/"],
    "store-kit/url-parameters.ts": ["stores/"],
    "env/base64.ts": ["stores/"],
    "env/checksum.ts": ["control/"],
    // For Node alone, so that it is not part of the index.
    "env/process-clock.ts": ["renewal-thread/"],
    // Without OpenTelemetry.
    "instrumentation/top-names.ts": ["internal.ts"],
    "instrumentation/lease-log.ts": ["connect.ts"],
    // For people who look at a server, not for programs.
    "election/leadership.ts": ["internal.ts", "instrumentation/"],
    "tasks/explain.ts": ["internal.ts"],
  },
  typesOnly: {
    control: ["tasks", "once"],
    wire: ["lease", "tasks", "once", "control", "election"],
    "stores/memory": ["stores/source"],
    "stores/postgres": ["stores/source"],
    "stores/http": ["stores/source"],
    "stores/consul": ["stores/source"],
    "stores/etcd": ["stores/source"],
    "stores/kubernetes": ["stores/source"],
    "stores/redis": ["stores/source"],
    "stores/sqlite": ["stores/source"],
    "stores/zookeeper": ["stores/source"],
  },
  light:
    /^(index|browser|port|internal|(tasks|election|fence|testing|wire|stores\/\w+)\/index)\.ts$/,
  heavy: ["@opentelemetry/api"],
  anywhere:
    /^(browser|port|(tasks|election|fence|instrumentation|testing|wire|stores\/(memory|http|consul|etcd))\/index)\.ts$/,
  asksForProcess: [
    "store-kit/tls-connections.ts",
    "stores/consul/connection-address.ts",
    "env/ids.ts",
    "env/protocols.ts",
    "env/signals.ts",
    "env/warnings.ts",
  ],
  node: [
    "compat/",
    "renewal-thread/",
    "stores/postgres/",
    "stores/http/node.ts",
    "stores/http/connection-node.ts",
    "stores/kubernetes/",
    "stores/redis/",
    "stores/sqlite/",
    "stores/zookeeper/",
  ],
  // A pod gets the address of its cluster from the environment, and kubectl its kubeconfig.
  // Consul's own programs take their token from it.
  // Proxies and certificates for a server are set there as for other programs.
  surroundings: [
    "stores/consul/connection-address.ts",
    "stores/http/connection-node.ts",
    "stores/kubernetes/connection-cluster.ts",
    // A plugin runs in the environment of its caller.
    "stores/kubernetes/connection-exec.ts",
  ],
  clock: ["env/"],
  loadsAnything: [],
  packages: {
    "@noble/hashes": ["env/"],
    "@opentelemetry/api": ["instrumentation/"],
    "@standard-schema/spec": ["tasks/"],
    // Loaded with the first JSON Schema.
    "@cfworker/json-schema": ["tasks/kinds/"],
    // Loaded with the first cron expression.
    croner: ["tasks/schedules/"],
    "eventsource-parser": ["stores/http/"],
    // A project that runs the suites installs it.
    "fast-check": ["testing/"],
    tinyqueue: ["lease/", "stores/memory/", "testing/"],
    pg: ["stores/postgres/"],
    "@electric-sql/pglite": ["stores/postgres/"],
    ioredis: ["stores/redis/"],
    libsql: ["stores/sqlite/"],
    "@grpc/grpc-js": ["stores/etcd/"],
    protobufjs: ["stores/etcd/"],
    "node-zookeeper-client": ["stores/zookeeper/"],
    undici: ["stores/http/"],
    yaml: ["stores/kubernetes/"],
  },
  // A file that imports it has nothing to say without it.
  needed: ["@opentelemetry/api"],
  optionalPeers: optionalPeers("leasehold"),
};

export const SERVER: Rules = {
  mayImport: {
    protocol: [],
    http: ["protocol"],
    cli: ["protocol", "http"],
    // What the verification shares of the command line.
    internal: ["cli"],
  },
  // The sample generator has one folder.
  unitsOf: {
    "generator/shared.ts": "protocol",
    "generator/schemas.ts": "protocol",
    "generator/state.ts": "http",
    "generator/routes.ts": "http",
    "generator/singleton.ts": "cli",
    "generator/command.ts": "cli",
  },
  openModules: {
    "generator/shared.ts": ["generator/", "cli/"],
    "generator/schemas.ts": ["generator/"],
    "generator/state.ts": ["generator/", "cli/"],
    "cli/exit-codes.ts": ["internal.ts"],
    // The rules of --oidc-role, which the command line checks before it opens a store.
    "http/auth/oidc/roles.ts": ["cli/"],
    "cli/options.ts": ["internal.ts"],
    "cli/output.ts": ["internal.ts"],
    "cli/progress.ts": ["internal.ts"],
  },
  typesOnly: {},
  light: /^protocol\/index\.ts$/,
  heavy: [
    "commander",
    "jose",
    "openid-client",
    "pino",
    "@opentelemetry/api",
    "@opentelemetry/sdk-metrics",
  ],
  anywhere: /^http\/app\.ts$/,
  asksForProcess: [],
  node: [
    "http/node.ts",
    "http/node-answer.ts",
    "http/listen.ts",
    "http/tls.ts",
    "http/raw-answer.ts",
    "http/client-certificates.ts",
    "http/address-list.ts",
    "http/one-by-one.ts",
    "http/connections.ts",
    "http/console/console-files.ts",
    "cli/",
  ],
  surroundings: ["cli/"],
  // Time and chance come from the library's environment. With node:crypto, this reads when a certificate ends.
  clock: ["cli/tls-files.ts"],
  loadsAnything: ["cli/"],
  packages: {
    leasehold: ["protocol/", "http/", "cli/", "generator/"],
    "@opentelemetry/api": ["cli/open-telemetry.ts"],
    // What a server's own process exports by.
    "@opentelemetry/sdk-metrics": ["cli/"],
    "@opentelemetry/context-async-hooks": ["cli/open-telemetry.ts"],
    "@opentelemetry/core": ["cli/open-telemetry.ts"],
    "@opentelemetry/exporter-metrics-otlp-http": ["cli/open-telemetry.ts"],
    "@opentelemetry/exporter-trace-otlp-http": ["cli/open-telemetry.ts"],
    "@opentelemetry/resources": ["cli/open-telemetry.ts"],
    "@opentelemetry/sdk-trace-base": ["cli/open-telemetry.ts"],
    // The drivers behind the default stores: installed for the library, which loads them.
    pg: [],
    "@electric-sql/pglite": [],
    zod: ["protocol/", "http/"],
    "@hono/zod-openapi": ["protocol/", "http/", "generator/"],
    hono: ["http/", "generator/routes.ts"],
    "@hono/node-server": ["http/node.ts"],
    // Loaded with the first token of an issuer.
    jose: ["http/auth/oidc/"],
    "openid-client": ["http/auth/oidc/"],
    commander: ["cli/", "generator/command.ts"],
    "cli-table3": ["cli/"],
    picocolors: ["cli/"],
    pino: ["cli/"],
  },
  needed: [],
  optionalPeers: optionalPeers("leasehold-server"),
};
