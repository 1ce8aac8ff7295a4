"""What a transcript says that is worth a note, by rules or by a model.

extractor      the contract, what extractors read, and how a model's answer is checked
sentences      the sentences of a transcript, without code
one file for each of the six extractors
"""
