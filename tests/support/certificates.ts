/** Certificates for tests, made by openssl: an authority, and what it signs. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { temporaryFolder } from "./processes.js";

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
   */
  sign(name: string, hosts?: readonly string[], subject?: string): Promise<Certificate>;
}

export async function newAuthority(): Promise<Authority> {
  const folder = await temporaryFolder();
  const file = (name: string) => join(folder, name);
  const [own, ownKey] = [file("authority.crt"), file("authority.key")];
  await openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority", {
    keyout: ownKey,
    out: own,
  });
  return {
    certificate: own,
    async sign(name, hosts = [], subject = `/CN=${name}`) {
      const [key, request, certificate] = ["key", "csr", "crt"].map((end) =>
        file(`${name}.${end}`),
      ) as [string, string, string];
      const names = hosts.map((host) => `${isIP(host) ? "IP" : "DNS"}:${host}`).join(",");
      const extensions = file(`${name}.ext`);
      await writeFile(extensions, names === "" ? "" : `subjectAltName=${names}\n`);
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
