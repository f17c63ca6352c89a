// Scores of Sphinx's search. Of pages with the same words, those come first that have them as keywords, then those
// that tell how to do something.
const FOLDERS = [[/^(start$|howto\/)/, 2], [/^reference\/[^/]*$/, 1]];
const stems = (text) => splitQuery(text.toLowerCase()).map((word) => new Stemmer().stemWord(word));
let queryStems, keywords; // stems of the query, and of the main entries of each page
var Scorer = {
  score: ([docname, , , , score]) => {
    queryStems ??= stems(new URLSearchParams(location.search).get("q") ?? "");
    if (!keywords) {
      keywords = new Map();
      for (const [entry, targets] of Object.entries(Search._index.indexentries))
        for (const [page] of targets.filter(([, , isMain]) => isMain)) {
          const name = Search._index.docnames[page];
          keywords.set(name, [...(keywords.get(name) ?? []), ...stems(entry)]);
        }
    }
    const shared = queryStems.filter((stem) => keywords.get(docname)?.includes(stem)).length;
    return score + 3 * shared + (FOLDERS.find(([pattern]) => pattern.test(docname))?.[1] ?? 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
