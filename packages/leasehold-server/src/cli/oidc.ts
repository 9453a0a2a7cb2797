/** Options of serve for identities from an OpenID Connect issuer. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Logger } from "leasehold";
import { roleRuleOf } from "../http/auth/oidc/roles.js";
import type { OidcOptions } from "../http/index.js";
import { isLoopback } from "../protocol/index.js";
import { UsageError } from "./failures.js";
import { readText } from "./files.js";
import { duration, notBlank } from "./options.js";

export interface OidcFlags {
  readonly host: string;
  readonly oidcIssuer?: string;
  readonly oidcAudience?: readonly string[];
  readonly oidcRole?: readonly string[];
  readonly oidcTenantClaim?: string;
  readonly oidcLeeway?: number;
  readonly oidcClientId?: string;
  readonly oidcClientSecretFile?: string;
  readonly oidcScope?: string;
  readonly publicUrl?: string;
  readonly sessionSecretFile?: string;
}

export function withOidc(command: Command): Command {
  const option = (flags: string, help: string, env: string) => new Option(flags, help).env(env);
  return command
    .addOption(
      option(
        "--oidc-issuer <url>",
        "accept tokens of this OpenID Connect issuer beside API keys; requests need one of them",
        "LEASEHOLD_OIDC_ISSUER",
      ).argParser(notBlank),
    )
    .addOption(
      option(
        "--oidc-audience <name>",
        "aud of tokens for this server; repeatable",
        "LEASEHOLD_OIDC_AUDIENCE",
      ).argParser(repeated(notBlank)),
    )
    .addOption(
      option(
        "--oidc-role <claim:value=role>",
        "role of tokens with this claim, such as groups:lease-admins=admin; repeatable, and the first that matches counts",
        "LEASEHOLD_OIDC_ROLES",
      ).argParser(repeated(rule)),
    )
    .addOption(
      option(
        "--oidc-tenant-claim <claim>",
        "claim that names the tenant, where the role names none (default: all are in the namespace default)",
        "LEASEHOLD_OIDC_TENANT_CLAIM",
      ).argParser(notBlank),
    )
    .addOption(
      new Option(
        "--oidc-leeway <duration>",
        "how far the clocks of issuer and server may differ (default: 5s)",
      ).argParser(duration),
    )
    .addOption(
      option(
        "--oidc-client-id <id>",
        "sign people in to the console as this client of the issuer, with the redirect URI PUBLIC_URL/session/callback",
        "LEASEHOLD_OIDC_CLIENT_ID",
      ).argParser(notBlank),
    )
    .addOption(
      option(
        "--oidc-client-secret-file <file>",
        "file with the secret of this client (default: none, a public client)",
        "LEASEHOLD_OIDC_CLIENT_SECRET_FILE",
      ).argParser(notBlank),
    )
    .addOption(
      option(
        "--oidc-scope <scopes>",
        "scopes that the console asks for (default: openid)",
        "LEASEHOLD_OIDC_SCOPE",
      ).argParser(notBlank),
    )
    .addOption(
      option(
        "--public-url <url>",
        "URL at which browsers reach the console; needed to sign in from other machines",
        "LEASEHOLD_PUBLIC_URL",
      ).argParser(notBlank),
    )
    .addOption(
      option(
        "--session-secret-file <file>",
        "file with a secret of 32 characters or more, the same at all servers, for sessions of the console; a line more is one that was replaced (default: sessions end with the process)",
        "LEASEHOLD_SESSION_SECRET_FILE",
      ).argParser(notBlank),
    );
}

/** A variable of the environment has one value in each line. */
function repeated(check: (text: string) => string) {
  return (text: string, before: readonly string[] = []): readonly string[] => {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    return [...before, ...lines.map(check)];
  };
}

function rule(text: string): string {
  try {
    roleRuleOf(text);
    return text;
  } catch (error) {
    const { message } = error as Error;
    throw new InvalidArgumentError(`It ${message.replace(/^oidc\.roles:? /, "")}.`);
  }
}

/** Options that need another one. */
const NEEDS: readonly (readonly [keyof OidcFlags, string, keyof OidcFlags, string])[] = [
  ["oidcAudience", "--oidc-audience", "oidcIssuer", "--oidc-issuer"],
  ["oidcRole", "--oidc-role", "oidcIssuer", "--oidc-issuer"],
  ["oidcTenantClaim", "--oidc-tenant-claim", "oidcIssuer", "--oidc-issuer"],
  ["oidcLeeway", "--oidc-leeway", "oidcIssuer", "--oidc-issuer"],
  ["oidcClientId", "--oidc-client-id", "oidcIssuer", "--oidc-issuer"],
  ["oidcClientSecretFile", "--oidc-client-secret-file", "oidcClientId", "--oidc-client-id"],
  ["oidcScope", "--oidc-scope", "oidcClientId", "--oidc-client-id"],
  ["publicUrl", "--public-url", "oidcClientId", "--oidc-client-id"],
  ["sessionSecretFile", "--session-secret-file", "oidcClientId", "--oidc-client-id"],
  ["oidcIssuer", "--oidc-issuer", "oidcAudience", "--oidc-audience"],
  ["oidcIssuer", "--oidc-issuer", "oidcRole", "--oidc-role"],
];

/**
 * The issuer and how people sign in; undefined: none.
 * @throws UsageError
 */
export async function oidcOf(flags: OidcFlags): Promise<OidcOptions | undefined> {
  for (const [given, name, needed, neededName] of NEEDS) {
    if (flags[given] === undefined || flags[needed] !== undefined) continue;
    throw new UsageError(`${name} needs ${neededName}`);
  }
  const { oidcIssuer: issuer, oidcAudience: audience, oidcRole: roles, oidcClientId } = flags;
  if (issuer === undefined || audience === undefined || roles === undefined) return undefined;
  const options = { issuer, audience, roles, tenantClaim: flags.oidcTenantClaim };
  const signIn = oidcClientId === undefined ? undefined : await signInOf(flags, oidcClientId);
  return { ...options, leewayMs: flags.oidcLeeway, signIn };
}

async function signInOf(flags: OidcFlags, clientId: string): Promise<OidcOptions["signIn"]> {
  const { host, publicUrl, oidcClientSecretFile, sessionSecretFile, oidcScope: scope } = flags;
  if (publicUrl === undefined && !isLoopback(host)) {
    throw new UsageError(
      "--oidc-client-id: name the URL at which browsers reach the console, --public-url",
    );
  }
  const [clientSecret] = await linesOf("--oidc-client-secret-file", oidcClientSecretFile);
  const secrets = await linesOf("--session-secret-file", sessionSecretFile);
  const sessionSecrets = sessionSecretFile === undefined ? undefined : secrets;
  return { clientId, clientSecret, scope, publicUrl, sessionSecrets };
}

/** Says what an operator may not expect of sessions. */
export function logSessions(
  logger: Pick<Logger, "info">,
  { oidcClientId, sessionSecretFile }: Omit<OidcFlags, "host">,
): void {
  if (oidcClientId === undefined || sessionSecretFile !== undefined) return;
  const what = "sessions of the console end with this process, and are for it alone";
  logger.info({}, `${what}: name a secret with --session-secret-file to share them`);
}

/** The lines of a file that are not blank. No message has any of them. */
async function linesOf(name: string, file: string | undefined): Promise<string[]> {
  if (file === undefined) return [];
  const text = await readText(file, name);
  const lines = text.split("\n").map((line) => line.trim());
  const said = lines.filter((line) => line !== "");
  if (said.length === 0) throw new UsageError(`${name}: ${file} is empty`);
  return said;
}
