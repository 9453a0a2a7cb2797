/** Certificates for tests, made by openssl: an authority, and what it signs. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { temporaryFolder } from "../processes/processes.js";

const run = promisify(execFile);
/** @param files by option */
const openssl = (command: string, files: Readonly<Record<string, string>>) =>
  run("openssl", [
    ...command.split(" "),
    ...Object.entries(files).flatMap(([option, path]) => [`-${option}`, path]),
  ]);

/** Files in PEM. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}
export interface Authority {
  /** Its own certificate, by which others trust it. */
  readonly certificate: string;
  /**
   * @param name the common name, such as that of a user
   * @param hosts the DNS names and addresses of a server
   * @param subject default: the common name alone
   * @param extensions further ones, as openssl writes them, such as `basicConstraints=CA:TRUE` of an authority below this one
   */
  sign(
    name: string,
    hosts?: readonly string[],
    subject?: string,
    extensions?: readonly string[],
  ): Promise<Certificate>;
}

export async function newAuthority(): Promise<Authority> {
  const folder = await temporaryFolder();
  const [certificate, key] = [join(folder, "authority.crt"), join(folder, "authority.key")];
  await openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority", {
    keyout: key,
    out: certificate,
  });
  return authorityOf({ certificate, key });
}

/** @param own of an authority: self-signed, or signed by another one */
export async function authorityOf({
  certificate: own,
  key: ownKey,
}: Certificate): Promise<Authority> {
  const folder = await temporaryFolder();
  const file = (name: string) => join(folder, name);
  return {
    certificate: own,
    async sign(name, hosts = [], subject = `/CN=${name}`, more = []) {
      const [key, request, certificate] = ["key", "csr", "crt"].map((end) =>
        file(`${name}.${end}`),
      ) as [string, string, string];
      const names = hosts.map((host) => `${isIP(host) ? "IP" : "DNS"}:${host}`).join(",");
      const extensions = file(`${name}.ext`);
      const lines = [...(names === "" ? [] : [`subjectAltName=${names}`]), ...more];
      await writeFile(extensions, lines.map((line) => `${line}\n`).join(""));
      await openssl(`req -newkey rsa:2048 -nodes -subj ${subject}`, {
        keyout: key,
        out: request,
      });
      await openssl("x509 -req -days 2 -CAcreateserial", {
        in: request,
        CA: own,
        CAkey: ownKey,
        extfile: extensions,
        out: certificate,
      });
      return { certificate, key };
    },
  };
}
