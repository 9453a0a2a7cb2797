/**
 * The list that assigns API keys to client certificates, one a line; # begins a comment:
 *
 *   dns:worker-1.example                    0123456789ab
 *   subject:CN=worker 2,O=Example           0123456789ab
 *   sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08   ba9876543210
 */
import type { ClientCertificate } from "../http/index.js";
import { UsageError } from "./failures.js";

/** By the names of certificates, the ids of keys. */
export type ClientKeys = ReadonlyMap<string, string>;

const FORM: Readonly<Record<string, RegExp>> = {
  sha256: /^[0-9a-f]{64}$/,
  subject: /^.+$/,
  dns: /^[^\s]+$/,
  uri: /^[^\s]+$/,
  email: /^[^\s]+$/,
};

/**
 * @param path for messages
 * @throws UsageError naming the line that is wrong
 */
export function parseClientKeys(text: string, path: string): ClientKeys {
  const keys = new Map<string, string>();
  for (const [index, line] of text.split("\n").entries()) {
    const entry = line.trim();
    if (entry === "" || entry.startsWith("#")) continue;
    const wrong = (problem: string) => new UsageError(`${path}, line ${index + 1}: ${problem}`);
    const [, name = "", id = ""] = /^(.*\S)\s+([0-9a-f]{12})$/.exec(entry) ?? [];
    if (id === "") {
      throw wrong("must be the name of a certificate and the id of a key, as in keys list");
    }
    const spelled = normalized(name);
    if (spelled === null) {
      const forms = Object.keys(FORM).map((kind) => `${kind}:`);
      throw wrong(`the name of a certificate must begin with ${forms.join(", ")}, not ${name}`);
    }
    if (keys.has(spelled)) throw wrong(`${name} is listed twice`);
    keys.set(spelled, id);
  }
  return keys;
}

/** As a server names certificates; null: it has no name of this form. */
function normalized(name: string): string | null {
  const [, kind = "", value = ""] = /^([a-z0-9]+):(.*)$/.exec(name) ?? [];
  const spelled =
    kind === "sha256"
      ? value.replaceAll(":", "").toLowerCase()
      : kind === "dns"
        ? value.toLowerCase()
        : value;
  return FORM[kind]?.test(spelled) ? `${kind}:${spelled}` : null;
}

/** The id of the key of a certificate; null: none of its names is listed, or they have different keys. */
export function keyIn(keys: ClientKeys, { identities }: ClientCertificate): string | null {
  const found = new Set(identities.flatMap((name) => keys.get(name) ?? []));
  const [id] = found;
  return found.size === 1 && id !== undefined ? id : null;
}
