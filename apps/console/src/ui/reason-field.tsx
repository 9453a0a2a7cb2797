import { Field, Input, Textarea } from "./field.js";

const MOST_CHARACTERS = 1_000;

interface Props {
  readonly label?: string;
  readonly reason: string;
  readonly onReason: (reason: string) => void;
  readonly required: boolean;
  readonly error?: string | undefined;
  /** For several lines; by default a single line, in which Enter submits. */
  readonly rows?: number;
}

/** The reason of an operator action. */
export function ReasonField({ label = "Reason", reason, onReason, required, error, rows }: Props) {
  return (
    <Field label={label} error={error} help="Recorded in the audit log with your name.">
      {(ids) => {
        const shared = { ...ids, required, autoFocus: true, maxLength: MOST_CHARACTERS };
        return rows === undefined ? (
          <Input {...shared} value={reason} onChange={({ target }) => onReason(target.value)} />
        ) : (
          <Textarea
            {...shared}
            rows={rows}
            className="font-sans!"
            value={reason}
            onChange={({ target }) => onReason(target.value)}
          />
        );
      }}
    </Field>
  );
}
