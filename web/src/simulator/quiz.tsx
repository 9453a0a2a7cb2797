/** Did it land? Questions, each with its reason once it is answered. */
import { useState } from "react";
import { QUIZ, type QuizQuestion } from "../../../src/simulation/playground/index.js";
import { Button } from "../ui/button.js";
import { Choices, ProgressBar } from "./choices.js";
import { answer, forgetQuiz, useProgress } from "./progress.js";

export function Quiz() {
  const { quiz } = useProgress();
  const answered = QUIZ.filter(({ id }) => quiz[id] !== undefined);
  const right = answered.filter(({ id, right }) => quiz[id] === right).length;
  return (
    <div className="grid gap-5">
      <ProgressBar done={answered.length} of={QUIZ.length} name="Questions answered" />
      {QUIZ.map((question) => (
        <Question key={question.id} question={question} answered={quiz[question.id] ?? null} />
      ))}
      {answered.length > 0 && (
        <div className="flex items-center justify-between gap-3 border-t pt-3 text-sm">
          <span role="status">
            {right} of {answered.length} right
          </span>
          <Button small look="quiet" onClick={forgetQuiz}>
            Begin anew
          </Button>
        </div>
      )}
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
    <div className="grid gap-2.5">
      <Choices
        {...{ question, choices }}
        chosen={answered ?? chosen}
        right={answered === null ? null : right}
        choose={setChosen}
      />
      {answered === null ? (
        <Button
          small
          className="justify-self-start"
          disabled={chosen === null}
          onClick={() => {
            if (chosen !== null) answer(id, chosen);
          }}
        >
          Answer
        </Button>
      ) : (
        <p role="status" className="text-sm leading-relaxed text-muted">
          {explanation}
        </p>
      )}
    </div>
  );
}
