// Runs SPIN once: it turns the model into a verifier in C, gcc compiles that, and the verifier explores every state.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { storyOf } from "./story.js";

/** @typedef {import("./configurations.js").Configuration} Configuration */

/**
 * @typedef {object} Result
 * @property {number} states different states
 * @property {number} transitions
 * @property {number} depth steps of the longest path
 * @property {number} megabytes
 * @property {number} seconds
 * @property {string | null} broken the name of a property; null if all hold
 * @property {string[]} story what happened until it broke, a step each
 */

const MODEL = fileURLToPath(new URL("lease.pml", import.meta.url));
/** Two verifiers run at a time. */
const MOST_MEGABYTES = 3_500;
const SAFETY = ["-DSAFETY", "-DNOCLAIM"];
/** -DREACH and -i look for the shortest counterexample, and not only for the first one. */
const SHORTEST = ["-DREACH"];
const LIVENESS = ["-DNFAIR=4"];

/**
 * What is missing on this machine, and how to install it; null if nothing is.
 * @returns {string | null}
 */
export function missing() {
  const tries = [
    { what: "spin", args: ["-V"] },
    { what: "gcc", args: ["-E", "-x", "c", "-include", "stdio.h", "/dev/null"] },
  ];
  const lacking = tries.filter(({ what, args }) => spawnSync(what, args).status !== 0);
  if (lacking.length === 0) return null;
  const names = lacking.map(({ what }) => what).join(" and ");
  return `${names} not found; on Debian: apt-get install spin gcc libc6-dev`;
}

/**
 * @param {Configuration & { breaks?: string }} configuration
 * @param {AbortSignal} [signal]
 * @returns {Promise<Result>}
 */
export async function verify({ defines, isLiveness = false, breaks }, signal) {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-spin-"));
  const run = (/** @type {string} */ command, /** @type {string[]} */ ...args) =>
    output(command, args, folder, signal);
  const flags = Object.entries(defines).map(([name, value]) =>
    value === true ? `-D${name}` : `-D${name}=${value}`,
  );
  const isShortest = breaks !== undefined && !isLiveness;
  try {
    await run("spin", ...flags, "-a", MODEL);
    await run(
      "gcc",
      "-O2",
      "-w",
      "-DNOREDUCE",
      `-DMEMLIM=${MOST_MEGABYTES}`,
      ...(isLiveness ? LIVENESS : SAFETY),
      ...(isShortest ? SHORTEST : []),
      "-o",
      "pan",
      "pan.c",
    );
    const beganMs = performance.now();
    const how = isLiveness ? ["-a", "-f"] : isShortest ? ["-i"] : [];
    const text = await run(join(folder, "pan"), "-n", "-w24", "-m2000000", ...how);
    const seconds = Math.round((performance.now() - beganMs) / 100) / 10;
    const figures = { ...figuresOf(text), seconds };
    if (!/errors: [1-9]/.test(text)) return { ...figures, broken: null, story: [] };
    const trail = await run("spin", "-T", "-k", "lease.pml.trail", ...flags, MODEL);
    return { ...figures, ...storyOf(trail, isLiveness) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param {string} text what the verifier prints */
function figuresOf(text) {
  const figure = (/** @type {RegExp} */ pattern) => Number(pattern.exec(text)?.[1] ?? Number.NaN);
  const figures = {
    states: figure(/^ *([\d.e+]+) states, stored/m),
    transitions: figure(/^ *([\d.e+]+) transitions/m),
    depth: figure(/depth reached (\d+)/),
    megabytes: Math.round(figure(/^ *([\d.]+)\ttotal actual memory usage/m)),
  };
  const isCutShort =
    /error: max search depth too small|out of memory|reached -DMEMLIM/.test(text) ||
    (/Search not completed/.test(text) && !/errors: [1-9]/.test(text));
  if (isCutShort || Object.values(figures).some(Number.isNaN))
    throw new Error(`SPIN has not explored every state:\n${text}`);
  return figures;
}

/**
 * @param {string} command
 * @param {string[]} args
 * @param {string} cwd
 * @param {AbortSignal | undefined} signal
 * @returns {Promise<string>} what it prints
 */
function output(command, args, cwd, signal) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, signal, stdio: ["ignore", "pipe", "pipe"] });
    let text = "";
    child.stdout.on("data", (chunk) => (text += chunk));
    child.stderr.on("data", (chunk) => (text += chunk));
    child.once("error", reject);
    child.once("close", (code, killer) => {
      // The verifier also ends with an error code if it has found an error, and says so.
      if (killer === null && (code === 0 || /errors: \d/.test(text))) resolve(text);
      else reject(new Error(`${command} ${args.join(" ")} ended with ${killer ?? code}:\n${text}`));
    });
  });
}
