// Reports of the exported signatures, one for each public entry of a package.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CompilerState, Extractor, ExtractorConfig } from "@microsoft/api-extractor";

const project = fileURLToPath(new URL("../../packages/leasehold", import.meta.url));
const manifest = join(project, "package.json");

/** The folder of the reports in the repository. */
export const REPORTS = join(project, "api");

/** @typedef {{ entry: string, file: string, report: string, forgotten: string[] }} ApiReport */

/** How a report notes a type that a signature names and the entry does not export. */
const FORGOTTEN = /\(ae-forgotten-export\) The symbol "(\w+)"/g;

/** The entry that exports every type that it names. */
const MAIN = "leasehold";

const REMEDY = "If the change is intended, run `npm run api -- --update` and review the diff.";

const SILENT = { default: { logLevel: "none" } };

/** @returns the public entries: what programs import, the file of their types, and the name of their report */
function publicEntries() {
  const { name, exports } = JSON.parse(readFileSync(manifest, "utf8"));
  return Object.entries(exports)
    .filter(([path, target]) => target.types && !path.startsWith("./internal"))
    .map(([path, target]) => {
      const entry = name + path.slice(1);
      return {
        entry,
        types: join(project, target.types),
        file: `${entry.replaceAll("/", "-")}.api.md`,
      };
    });
}

/** @returns the settings of the extractor for one entry; it writes into the folder only */
function configure({ types, file }, folder) {
  return ExtractorConfig.prepare({
    packageJsonFullPath: manifest,
    configObjectFullPath: undefined,
    configObject: {
      projectFolder: project,
      mainEntryPointFilePath: types,
      newlineKind: "lf",
      compiler: {
        overrideTsconfig: {
          compilerOptions: {
            target: "ES2022",
            // Without "DOM", whose global Worker would rename the one of tasks.
            lib: ["ES2024", "ESNext.Disposable"],
            module: "NodeNext",
            moduleResolution: "NodeNext",
            types: ["node"],
            strict: true,
            skipLibCheck: true,
          },
          files: [types],
        },
      },
      apiReport: {
        enabled: true,
        reportFileName: file,
        reportFolder: folder,
        reportTempFolder: join(folder, "temporary"),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        compilerMessageReporting: SILENT,
        // The docstrings follow JSDoc. TSDoc's tags of release stages are not used.
        tsdocMessageReporting: SILENT,
        extractorMessageReporting: {
          ...SILENT,
          "ae-forgotten-export": { logLevel: "none", addToApiReportFile: true },
        },
      },
    },
  });
}

/**
 * Makes the reports from the built declarations.
 * @returns {ApiReport[]} of each entry: its report, and the types that its signatures name without exporting them
 */
export function makeReports() {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-api-"));
  try {
    const entries = publicEntries();
    const configs = entries.map((entry) => configure(entry, folder));
    // One program for all entries: reading the declarations takes most of the time.
    const compilerState = CompilerState.create(configs[0], {
      additionalEntryPoints: entries.map(({ types }) => types),
    });
    return entries.map(({ entry, file }, index) => {
      Extractor.invoke(configs[index], {
        compilerState,
        localBuild: true,
        messageCallback: (message) => {
          message.handled = true;
        },
      });
      const report = readFileSync(join(folder, file), "utf8");
      const forgotten = [...report.matchAll(FORGOTTEN)].map(([, symbol]) => symbol);
      return { entry, file, report, forgotten };
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Compares the reports with the files in a folder.
 * @param {ApiReport[]} reports
 * @returns {string[]} the problems, each with its entry and the remedy; none if all agree
 */
export function problemsOf(reports, folder = REPORTS) {
  const problems = [];
  for (const { entry, file, report, forgotten } of reports) {
    const path = join(folder, file);
    if (!existsSync(path)) {
      problems.push(`"${entry}" has no report ${file}. ${REMEDY}`);
    } else if (readFileSync(path, "utf8") !== report) {
      problems.push(`The signatures of "${entry}" differ from ${file}. ${REMEDY}`);
    }
    if (entry === MAIN && forgotten.length > 0) {
      problems.push(
        `"${entry}" names types that it does not export: ${forgotten.join(", ")}. Export them from src/face.ts.`,
      );
    }
  }
  const expected = new Set(reports.map(({ file }) => file));
  for (const file of existsSync(folder) ? readdirSync(folder) : []) {
    if (!expected.has(file)) problems.push(`${file} belongs to no entry. Delete it.`);
  }
  return problems;
}

/** Writes the reports. */
export function writeReports(reports, folder = REPORTS) {
  mkdirSync(folder, { recursive: true });
  for (const { file, report } of reports) writeFileSync(join(folder, file), report);
}
