// Scores of Sphinx's search. Of pages with the same words, those come first that tell how to do something.
const BOOSTS = [[/^start$/, 3], [/^howto\//, 2], [/^reference\/[^/]*$/, 1]];
var Scorer = {
  score: ([docname, , , , score]) => score + (BOOSTS.find(([pattern]) => pattern.test(docname))?.[1] ?? 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
