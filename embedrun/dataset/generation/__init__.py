"""LLM-supervised pairs: language models write sentences of the same and of the opposite meaning.

Li and Li 2024 (AnglE), Section 4.5 and Figure 4. `prompt` asks, an `llm_*` answers, `responses` keeps every
answer, `answers` takes it apart, `sift` makes pairs, `parts` and `merge` write them.
"""
