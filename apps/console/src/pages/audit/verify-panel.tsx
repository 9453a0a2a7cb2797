/** Verifies the hash chain of the audit log, optionally against a checkpoint. */
import { Button, classNames, Icon } from "leasehold-ui";
import { type ReactNode, type SubmitEvent, useState } from "react";
import { Field, Textarea } from "../../ui/field.js";
import { Failure } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { notifyFailure } from "../../ui/toast.js";
import { type Checkpoint, checkpoint, type Verification, verify } from "./audit-queries.js";
import { download, stamped } from "./download.js";

interface Verdict {
  readonly verification: Verification;
  readonly kept: Checkpoint | undefined;
  readonly at: Date;
}

/** Accepts a file from this page, a line of `leasehold audit export`, or the server's response. */
function readCheckpoint(text: string): Checkpoint | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "This is not valid JSON.";
  }
  const { seq, hash } = (value ?? {}) as Partial<Record<string, unknown>>;
  if (!Number.isInteger(seq) || typeof hash !== "string" || !/^[0-9a-f]{64}$/.test(hash)) {
    return "A checkpoint is { seq, hash }: an integer and 64 hex digits.";
  }
  return { seq: seq as number, hash };
}

export function VerifyPanel() {
  const [verdict, setVerdict] = useState<Verdict>();
  const [failure, setFailure] = useState<unknown>();
  const [reading, setReading] = useState(false);
  const [against, setAgainst] = useState(false);
  const run = async (kept: Checkpoint | undefined) => {
    setReading(true);
    setFailure(undefined);
    setVerdict(undefined);
    try {
      setVerdict({ verification: await verify(kept), kept, at: new Date() });
    } catch (error) {
      setFailure(error);
    } finally {
      setReading(false);
    }
  };
  const keep = async () => {
    try {
      const head = await checkpoint();
      download(
        `${stamped("audit-checkpoint")}.json`,
        `${JSON.stringify(head)}\n`,
        "application/json",
      );
    } catch (error) {
      notifyFailure(error);
    }
  };
  return (
    <section aria-label="Verify the audit" className="mb-4 rounded-xl border bg-surface">
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-3 px-4 py-3">
        <p className="max-w-prose text-sm text-muted">
          Each entry contains the hash of the previous one, so a changed entry breaks the chain. To
          detect a truncated log as well, verify it against a checkpoint that you keep elsewhere.
        </p>
        <div className="flex flex-wrap gap-2">
          <Button look="primary" disabled={reading} onClick={() => void run(undefined)}>
            <Icon name="shield" /> {reading ? "Verifying…" : "Verify"}
          </Button>
          <Button aria-expanded={against} onClick={() => setAgainst(!against)}>
            Verify against a checkpoint
          </Button>
          <Button onClick={() => void keep()}>Download checkpoint</Button>
        </div>
      </div>
      {against && <AgainstForm reading={reading} run={(kept) => void run(kept)} />}
      <div role="status">{verdict && <Outcome verdict={verdict} />}</div>
      {failure !== undefined && <Failure error={failure} />}
    </section>
  );
}

interface AgainstProps {
  readonly reading: boolean;
  readonly run: (kept: Checkpoint) => void;
}

function AgainstForm({ reading, run }: AgainstProps) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string>();
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const kept = readCheckpoint(text);
    setProblem(typeof kept === "string" ? kept : undefined);
    if (typeof kept !== "string") run(kept);
  };
  return (
    <form onSubmit={submit} className="grid gap-3 border-t px-4 py-3">
      <Field
        label="Checkpoint"
        help="Paste a downloaded checkpoint or an exported entry."
        error={problem}
      >
        {(ids) => (
          <Textarea
            {...ids}
            {...{ required: true, rows: 2, spellCheck: false }}
            placeholder='{"seq":42,"hash":"…"}'
            value={text}
            onChange={({ target }) => setText(target.value)}
          />
        )}
      </Field>
      <div className="flex flex-wrap items-center gap-3">
        <Button small type="submit" disabled={reading}>
          Verify against this checkpoint
        </Button>
        <input
          type="file"
          aria-label="Load a checkpoint from a file"
          accept=".json,application/json"
          className="text-xs text-muted file:mr-2 file:h-7 file:rounded-md file:border file:bg-surface file:px-2 file:text-ink"
          onChange={({ target }) => void target.files?.[0]?.text().then(setText)}
        />
      </div>
    </form>
  );
}

function Outcome({ verdict: { verification, kept, at } }: { readonly verdict: Verdict }) {
  const { ok, seq, hash, problem } = verification;
  if (!ok) {
    return (
      <Result look="bg-danger-soft text-danger" icon="warning" title={`Broken at entry ${seq}`}>
        <p>{problem}</p>
        <p className="mt-1 text-xs">Entries before it are unchanged.</p>
      </Result>
    );
  }
  return (
    <Result look="bg-ok-soft text-ok" icon="check" title="Intact">
      <p>
        {seq === 0 ? "There are no entries yet" : `All ${seq.toLocaleString("en")} entries`}
        {seq > 0 && ", of all tenants, are unchanged"}
        {kept && `, and the chain contains your checkpoint at entry ${kept.seq}`}.
      </p>
      <p className="mt-1 text-xs">
        Verified <TimeText at={at} />. The last hash is{" "}
        <span className="font-mono break-all">{hash}</span>
      </p>
    </Result>
  );
}

interface ResultProps {
  readonly look: string;
  readonly icon: "check" | "warning";
  readonly title: string;
  readonly children: ReactNode;
}

function Result({ look, icon, title, children }: ResultProps) {
  return (
    <div className={classNames("flex gap-3 rounded-b-xl border-t px-4 py-3 text-sm", look)}>
      <span className="mt-0.5">
        <Icon name={icon} />
      </span>
      <div className="min-w-0">
        <p className="font-semibold">{title}</p>
        <div className="text-ink">{children}</div>
      </div>
    </div>
  );
}
