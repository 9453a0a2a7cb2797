/**
 * Leases on a custom store: a folder that the processes of one machine share. custom-store/store.js is
 * the store, custom-store/cell.js the compare-and-swap below it.
 *
 *   node examples/custom-store.js [FOLDER]
 *
 * Without FOLDER it uses a temporary one. Three processes write the numbers from 1 to 20 to a file. Each
 * reads and rewrites the whole file, yet every number appears once. One process is killed halfway. The
 * others continue when its lease has expired.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "leasehold";
import { FolderStore } from "./custom-store/store.js";

const GOAL = 20;
const [given, holder] = process.argv.slice(2);
if (given !== undefined && holder !== undefined) await count(given, holder);
else await main(given ?? (await mkdtemp(join(tmpdir(), "leasehold-folder-"))));

/** @param {string} folder */
async function main(folder) {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "numbers"), "");
  await rm(join(folder, "killed"), { force: true });
  const workers = ["worker-1", "worker-2", "worker-3"].map((name) =>
    fork(import.meta.filename, [folder, name]),
  );
  await Promise.all(workers.map((worker) => once(worker, "exit")));
  const killed = workers.filter(({ signalCode }) => signalCode === "SIGKILL");
  const entries = await readEntries(folder);
  const inOrder = entries.every(({ number }, index) => number === index + 1);
  const growing = entries.every(({ token }, index) => token > (entries[index - 1]?.token ?? 0));
  console.log(
    `${entries.length} numbers, in order: ${inOrder}, tokens grow: ${growing}, killed: ${killed.length}`,
  );
  if (given === undefined) await rm(folder, { recursive: true });
}

/**
 * What each process does.
 * @param {string} folder
 * @param {string} holder
 */
async function count(folder, holder) {
  const store = await FolderStore.open(join(folder, "leases"));
  const leases = await connect(store, { holder, defaults: { ttlMs: 2_000 } });
  for (let last = 0; last < GOAL; ) {
    last = await leases.run("numbers", async ({ token }) => {
      const entries = await readEntries(folder);
      const number = entries.length + 1;
      if (number > GOAL) return GOAL;
      if (number === GOAL / 2 && (await isFirst(join(folder, "killed")))) {
        console.log(`${holder} is killed before it writes ${number}`);
        process.kill(process.pid, "SIGKILL");
      }
      const all = [...entries, { number, holder, token }];
      await writeFile(
        join(folder, "numbers"),
        all.map((entry) => JSON.stringify(entry)).join("\n"),
      );
      console.log(`${holder} writes ${number}, token ${token}`);
      return number;
    });
    await sleep(50);
  }
  await leases.close();
  // What connect() did not open, it does not close.
  await store.close();
}

/**
 * @param {string} folder
 * @returns {Promise<{ number: number, holder: string, token: number }[]>}
 */
async function readEntries(folder) {
  const text = await readFile(join(folder, "numbers"), "utf8");
  return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
}

/**
 * Creates the file. Returns false if another process has created it before.
 * @param {string} path
 */
function isFirst(path) {
  return writeFile(path, "", { flag: "wx" }).then(
    () => true,
    () => false,
  );
}
