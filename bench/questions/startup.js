// How long programs wait before their first line: for the import, and for the command.
//
// ratio 1 = milliseconds of `import "leasehold"` / of `import "pg"`, each in a new process
// ratio 2 = milliseconds of `leasehold --help` / (those of `node -e 0` + 60 ms)
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { interleaved, median } from "../measure.js";
import { ratioRow, sidesOf } from "../rows.js";

const run = promisify(execFile);
const HERE = fileURLToPath(new URL(".", import.meta.url));
const COMMAND = fileURLToPath(
  new URL("../../packages/leasehold-server/dist/cli/main.js", import.meta.url),
);
const ALLOWED_MS = 60;

/** @type {import("../measure.js").Question} */
export default {
  question: "Start-up: the import and the command",
  async run({ size, progress }) {
    const times = size(11, 5);
    const each = (/** @type {() => Promise<number>} */ measure) => async () => {
      const took = [];
      for (let turn = 0; turn < times; turn += 1) took.push(await measure());
      return { value: median(took) };
    };
    const { ours, pg, help, bare } = await interleaved(
      size(7, 3),
      {
        ours: each(() => importMs("leasehold")),
        pg: each(() => importMs("pg")),
        help: each(() => processMs([COMMAND, "--help"])),
        bare: each(() => processMs(["-e", "0"])),
      },
      progress,
    );
    const allowed = bare.map(({ value }) => ({ value: value + ALLOWED_MS }));
    const better = /** @type {const} */ ("lower");
    return [
      ratioRow(
        {
          id: "startup-import",
          what: "import of the library",
          beside: "of pg",
          reach: 1.2,
          better,
        },
        "ms",
        { ours, pg },
      ),
      {
        ...ratioRow(
          {
            id: "startup-help",
            what: "leasehold --help",
            beside: `node -e 0 and ${ALLOWED_MS} ms`,
            reach: 1,
            better,
          },
          "ms",
          { help, allowed },
        ),
        sides: sidesOf("ms", { ours: help, "node -e 0": bare }),
      },
    ];
  },
};

/** @param {string} name */
async function importMs(name) {
  const code = `const begin = performance.now();
    await import("${name}");
    console.log(performance.now() - begin);`;
  const { stdout } = await run(process.execPath, ["--input-type=module", "-e", code], {
    cwd: HERE,
  });
  return Number(stdout);
}

/** @param {readonly string[]} args */
async function processMs(args) {
  const begin = performance.now();
  await run(process.execPath, args);
  return performance.now() - begin;
}
