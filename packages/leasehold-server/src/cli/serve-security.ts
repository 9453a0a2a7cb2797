/** Options of a server about TLS, certificates of clients, and networks. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { type Env, InvalidOptionError, type Stores } from "leasehold";
import {
  type AddressList,
  type AllowedFrom,
  addressList,
  type ClientCertificates,
  type Listening,
  type ServerTls,
} from "../http/index.js";
import { UsageError } from "./failures.js";
import { duration } from "./options.js";
import { TlsFiles } from "./tls-files.js";

export interface SecurityOptions {
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly tlsClientCa?: string;
  readonly tlsClientKeys?: string;
  readonly tlsClientOptional?: boolean;
  readonly hsts?: number;
  readonly trustedProxies?: AddressList;
  readonly allowFrom?: ReadonlyMap<string, AddressList>;
}

/** The tenants of --allow-from that it does not name. */
const OTHERS = "*";

export function withSecurity(command: Command): Command {
  return command
    .addOption(
      new Option(
        "--tls-cert <file>",
        "serve https with this certificate, and those of intermediate authorities after it, in PEM; read again when it changes",
      ).env("LEASEHOLD_TLS_CERT"),
    )
    .addOption(
      new Option("--tls-key <file>", "the private key of --tls-cert, in PEM").env(
        "LEASEHOLD_TLS_KEY",
      ),
    )
    .option(
      "--tls-client-ca <file>",
      "authorities that sign the certificates of clients, in PEM; requests then need such a certificate, except health checks",
    )
    .option(
      "--tls-client-keys <file>",
      "list that assigns API keys to certificates of clients; a certificate that it does not name has no access",
    )
    .option(
      "--tls-client-optional",
      "with --tls-client-ca: requests with an API key need no certificate",
    )
    .option(
      "--hsts <duration>",
      "how long browsers shall use https alone for this host, on all of its ports; 0s sends no such header (default: 365d with --tls-cert, otherwise none)",
      duration,
    )
    .option(
      "--trusted-proxies <address,...>",
      "addresses and networks of proxies whose X-Forwarded-For names the client",
      (text: string) => listOf(text),
    )
    .option(
      "--allow-from <tenant=address,...>",
      "addresses and networks from which a tenant may be used; * for the tenants that are not named; repeatable",
      allowFrom,
    );
}

function listOf(text: string): AddressList {
  try {
    return addressList(text.split(",").map((range) => range.trim()));
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    throw new InvalidArgumentError(`It ${error.message.slice(error.path.length + 1)}.`);
  }
}

function allowFrom(
  text: string,
  before: ReadonlyMap<string, AddressList> = new Map(),
): ReadonlyMap<string, AddressList> {
  const at = text.lastIndexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be tenant=address,...");
  const tenant = text.slice(0, at);
  if (before.has(tenant)) throw new InvalidArgumentError(`${tenant} is given more than once.`);
  return new Map([...before, [tenant, listOf(text.slice(at + 1))]]);
}

export interface Security {
  /** For the app. */
  readonly app: {
    readonly clientCertificates: ClientCertificates | undefined;
    readonly trustedProxies: AddressList | undefined;
    readonly allowedFrom: AllowedFrom | undefined;
  };
  /** For the connections. */
  readonly connections: {
    readonly tls: ServerTls | undefined;
    readonly hstsMaxAgeMs: number | undefined;
  };
  /** Follows the files of certificates and of their keys. Returns a function that ends it. */
  follow(
    server: Pick<Listening, "changeTls">,
    stores: Pick<Stores, "control">,
  ): () => Promise<void>;
}

/** @throws UsageError for options that exclude or need each other, and for files that cannot be used */
export async function securityOf(options: SecurityOptions, env: Env): Promise<Security> {
  const { hsts, trustedProxies, allowFrom: allowed } = options;
  const files = await filesOf(options, env);
  const keyOf = options.tlsClientKeys === undefined ? undefined : files?.keyOf;
  const required = options.tlsClientOptional !== true;
  return {
    app: {
      clientCertificates: options.tlsClientCa === undefined ? undefined : { required, keyOf },
      trustedProxies,
      allowedFrom: allowed && ((tenant) => allowed.get(tenant) ?? allowed.get(OTHERS)),
    },
    connections: { tls: files?.tls, hstsMaxAgeMs: hsts },
    follow: (server, { control }) => files?.follow(server, control?.keys) ?? (async () => {}),
  };
}

async function filesOf(options: SecurityOptions, env: Env): Promise<TlsFiles | undefined> {
  const { tlsCert: cert, tlsKey: key, tlsClientCa: clientCa, tlsClientKeys: clientKeys } = options;
  const needs = (what: string, others: string) => new UsageError(`${what} needs ${others}`);
  if (clientKeys !== undefined && clientCa === undefined) {
    throw needs(
      "--tls-client-keys",
      "--tls-client-ca: otherwise any certificate would be accepted",
    );
  }
  if (options.tlsClientOptional && clientCa === undefined) {
    throw needs("--tls-client-optional", "--tls-client-ca");
  }
  if (cert === undefined && key === undefined) {
    if (clientCa === undefined) return undefined;
    throw needs("--tls-client-ca", "--tls-cert and --tls-key");
  }
  if (key === undefined) throw needs("--tls-cert", "--tls-key");
  if (cert === undefined) throw needs("--tls-key", "--tls-cert");
  return TlsFiles.read({ cert, key, clientCa, clientKeys }, env);
}
