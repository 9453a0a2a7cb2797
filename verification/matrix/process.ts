/** The programs of the matrix in one, which is compiled once: process.js NAME ARGUMENTS... */
const [name = ""] = process.argv.splice(2, 1);
const PROGRAMS: Readonly<Record<string, () => Promise<unknown>>> = {
  node: () => import("./node.js"),
  server: () => import("./server.js"),
  "kube-api": () => import("../../tests/support/engines/kube-api-process.js"),
};
await PROGRAMS[name]?.();
