/** The programs of the upgrade in one, which is compiled with each version of the packages: program.js NAME ARGUMENTS... */
const [name = ""] = process.argv.splice(2, 1);
const PROGRAMS: Readonly<Record<string, () => Promise<unknown>>> = {
  client: () => import("./client.js"),
  server: () => import("../matrix/server.js"),
  "kube-api": () => import("../../tests/support/engines/kube-api-process.js"),
};
await PROGRAMS[name]?.();
