/** A multiple-choice question. Once the right answer is known, it is marked. */
import { classNames, Icon } from "leasehold-ui";
import { useId } from "react";

interface Props {
  readonly question: string;
  readonly choices: readonly { readonly id: string; readonly text: string }[];
  readonly chosen: string | null;
  /** The id of the right answer; null: not known yet. */
  readonly right: string | null;
  readonly choose: (id: string) => void;
  readonly disabled?: boolean;
}

export function Choices({ question, choices, chosen, right, choose, disabled = false }: Props) {
  const name = useId();
  return (
    <fieldset className="grid gap-1.5" disabled={disabled || right !== null}>
      <legend className="mb-2 text-sm font-medium">{question}</legend>
      {choices.map(({ id, text }) => {
        const isRight = right === id;
        const isWrong = right !== null && chosen === id && !isRight;
        return (
          <label
            key={id}
            className={classNames(
              "flex items-start gap-2 rounded-lg border px-2.5 py-2 text-sm leading-snug",
              right === null && !disabled && "cursor-pointer hover:border-line-strong",
              right === null && chosen === id && "border-accent! bg-accent-soft",
              isRight && "border-ok bg-ok-soft text-ok",
              isWrong && "border-danger bg-danger-soft text-danger",
            )}
          >
            <input
              type="radio"
              className="mt-[3px] accent-accent"
              name={name}
              checked={chosen === id}
              onChange={() => choose(id)}
            />
            <span className="flex-1">{text}</span>
            {(isRight || isWrong) && (
              <>
                <Icon name={isRight ? "check" : "close"} />
                <span className="sr-only">{isRight ? "correct" : "wrong"}</span>
              </>
            )}
          </label>
        );
      })}
    </fieldset>
  );
}

/** The progress through experiments or questions. */
export function ProgressBar({ done, of, name }: { done: number; of: number; name: string }) {
  return (
    <div className="flex items-center gap-3 text-xs text-muted">
      <div
        role="progressbar"
        aria-label={name}
        aria-valuemin={0}
        aria-valuemax={of}
        aria-valuenow={done}
        className="flex flex-1 gap-1"
      >
        {Array.from({ length: of }, (_, index) => (
          <span
            key={index}
            className={classNames(
              "h-1.5 flex-1 rounded-full",
              index < done ? "bg-accent" : "bg-line",
            )}
          />
        ))}
      </div>
      <span className="tabular">
        {done} of {of}
      </span>
    </div>
  );
}
