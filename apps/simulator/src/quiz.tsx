/** The quiz: one question at a time, with an explanation after the answer. */
import { Button } from "leasehold-ui";
import { useState } from "react";
import { Choices, ProgressBar } from "./choices.js";
import { QUIZ, type QuizQuestion } from "./playground/index.js";
import { answer, forgetQuiz, useProgress } from "./progress.js";

export function Quiz() {
  const { quiz } = useProgress();
  const [at, setAt] = useState(() =>
    Math.max(
      0,
      QUIZ.findIndex(({ id }) => quiz[id] === undefined),
    ),
  );
  const answered = QUIZ.filter(({ id }) => quiz[id] !== undefined);
  const right = answered.filter(({ id, right }) => quiz[id] === right).length;
  const question = QUIZ[at];
  return (
    <div className="grid gap-4">
      <ProgressBar done={answered.length} of={QUIZ.length} name="Questions answered" />
      {question && (
        <Question key={question.id} question={question} answered={quiz[question.id] ?? null} />
      )}
      <div className="flex items-center gap-2 border-t pt-3 text-xs text-muted">
        <Button small disabled={at === 0} onClick={() => setAt(at - 1)}>
          Back
        </Button>
        <Button small disabled={at === QUIZ.length - 1} onClick={() => setAt(at + 1)}>
          Next question
        </Button>
        {answered.length > 0 && (
          <>
            <span role="status" className="ml-auto tabular">
              {right} of {answered.length} correct
            </span>
            <Button
              small
              look="quiet"
              onClick={() => {
                forgetQuiz();
                setAt(0);
              }}
            >
              Start over
            </Button>
          </>
        )}
      </div>
    </div>
  );
}

function Question({
  question: { id, question, choices, right, explanation },
  answered,
}: {
  readonly question: QuizQuestion;
  readonly answered: string | null;
}) {
  const [chosen, setChosen] = useState<string | null>(null);
  return (
    <div className="grid gap-3">
      <Choices
        {...{ question, choices }}
        chosen={answered ?? chosen}
        right={answered === null ? null : right}
        choose={setChosen}
      />
      {answered === null ? (
        <Button
          small
          look="primary"
          className="justify-self-start"
          disabled={chosen === null}
          onClick={() => {
            if (chosen !== null) answer(id, chosen);
          }}
        >
          Check answer
        </Button>
      ) : (
        <p role="status" className="text-sm leading-relaxed text-muted">
          {explanation}
        </p>
      )}
    </div>
  );
}
