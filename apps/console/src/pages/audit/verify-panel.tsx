/** Verifies the hash chain of the audit log. */
import { Button, classNames, Icon } from "leasehold-ui";
import { type ReactNode, useState } from "react";
import { Failure } from "../../ui/states.js";
import { TimeText } from "../../ui/time.js";
import { type Verification, verify } from "./audit-queries.js";

interface Verdict {
  readonly verification: Verification;
  readonly at: Date;
}

export function VerifyPanel() {
  const [verdict, setVerdict] = useState<Verdict>();
  const [failure, setFailure] = useState<unknown>();
  const [reading, setReading] = useState(false);
  const run = async () => {
    setReading(true);
    setFailure(undefined);
    setVerdict(undefined);
    try {
      setVerdict({ verification: await verify(), at: new Date() });
    } catch (error) {
      setFailure(error);
    } finally {
      setReading(false);
    }
  };
  return (
    <section aria-label="Verify the audit" className="mb-4 rounded-xl border bg-surface">
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-3 px-4 py-3">
        <p className="max-w-prose text-sm text-muted">
          Each entry contains the hash of the previous one, so a changed entry breaks the chain. To
          detect a truncated or rewritten log as well, keep what{" "}
          <code className="font-mono">leasehold audit export</code> writes elsewhere, and name it to{" "}
          <code className="font-mono">leasehold audit verify --export</code>.
        </p>
        <Button look="primary" disabled={reading} onClick={() => void run()}>
          <Icon name="shield" /> {reading ? "Verifying…" : "Verify"}
        </Button>
      </div>
      <div role="status">{verdict && <Outcome verdict={verdict} />}</div>
      {failure !== undefined && <Failure error={failure} />}
    </section>
  );
}

function Outcome({ verdict: { verification, at } }: { readonly verdict: Verdict }) {
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
        {seq > 0 && ", of all tenants, are unchanged"}.
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
