def matmul(*words):
    return words
