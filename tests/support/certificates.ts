/** Certificates of an authority of their own, for tests, made by openssl. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { temporaryFolder } from "./processes.js";

/** Paths of PEM files. */
export interface Certificates {
  readonly ca: string;
  /** Of a server at 127.0.0.1 and localhost. */
  readonly server: { readonly cert: string; readonly key: string };
  readonly client: { readonly cert: string; readonly key: string };
  /** What `tls.connect` needs of a client. */
  readonly options: { readonly ca: string; readonly cert: string; readonly key: string };
}

export async function makeCertificates(): Promise<Certificates> {
  const folder = await temporaryFolder();
  const at = (name: string) => join(folder, name);
  const openssl = (command: string) =>
    execFileSync("openssl", command.split(" "), { stdio: "ignore" });
  const newKey = "-newkey rsa:2048 -nodes";
  const ca = at("ca.pem");
  openssl(`req -x509 ${newKey} -days 2 -subj /CN=ca -keyout ${at("ca.key")} -out ${ca}`);
  const extensions = at("extensions");
  await writeFile(extensions, "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
  const signed = (name: string) => {
    const [cert, key, request] = [at(`${name}.pem`), at(`${name}.key`), at(`${name}.csr`)];
    openssl(`req ${newKey} -subj /CN=${name} -keyout ${key} -out ${request}`);
    const by = `-CA ${ca} -CAkey ${at("ca.key")} -CAcreateserial`;
    openssl(`x509 -req -in ${request} ${by} -days 2 -extfile ${extensions} -out ${cert}`);
    return { cert, key };
  };
  const [server, client] = [signed("server"), signed("client")];
  const text = (path: string) => readFileSync(path, "utf8");
  const options = { ca: text(ca), cert: text(client.cert), key: text(client.key) };
  return { ca, server, client, options };
}
